//! Connections with the settings of the application's own clients, and their names at the server.

use leasehold::LockClient;
use leasehold::redis::RedisOptions;
use leasehold::redis::redis::Client;
use lock_testkit::RedisServer;

use crate::support::{APP, expire_on_redis, fresh_name, held, patient, queued, released, served};
use crate::support::{client, works};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_the_application_says_where() {
    let server = RedisServer::start().await;
    expire_on_redis(&server, "word");
    let own = Client::open(format!("redis://{APP}:word@{}/3?protocol=resp3", server.addr()));
    let options = RedisOptions::like_client(&own.expect("a good URL"));
    let locks = LockClient::new(options.connect().await.expect("a connection"));
    works(&locks).await;
    let (same, name) = (client(&format!("{}3", server.url())).await, fresh_name());
    let guard = held(&locks, &name).await;
    assert!(same.try_acquire(&*name).await.expect("an answer").is_none(), "database 3");
    released(guard).await;
}

/// A name is set without a right on CLIENT, by both versions of the protocol.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_named() {
    let server = RedisServer::start().await;
    for protocol in ["resp2", "resp3"] {
        let client = client(&format!("{}?protocol={protocol}", server.url())).await;
        let name = fresh_name();
        let guard = held(&client, &name).await;
        let waiting = queued(&client, &client, patient(&name), &name).await;
        let list = server.cli(&["CLIENT", "LIST"]).text().to_owned();
        let named = list.lines().filter(|line| line.contains(" name=leasehold ")).count();
        assert_eq!(named, 1, "that for requests: {list}");
        released(guard).await;
        released(served(waiting).await).await;
        client.shutdown().await;
        drop(client);
    }
}
