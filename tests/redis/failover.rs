//! A replica that takes over behind a host name, by a failover without losses.

use std::time::Duration;

use leasehold::LockClient;
use lock_testkit::{Proxy, RedisServer, eventually};
use tokio::time::timeout;

use crate::redis_server::redis_connections;
use crate::support::{
    LIMIT, acquiring, client, fresh_name, held, patient, queued, released, served,
};

/// Starts two servers, of which the second follows the first.
async fn replicated() -> [RedisServer; 2] {
    let first = RedisServer::start().await;
    let port = first.port().to_string();
    let second = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]).await;
    until_it_follows(&second).await;
    [first, second]
}

async fn until_it_follows(server: &RedisServer) {
    eventually("it follows", LIMIT, async || {
        server.cli(&["INFO", "replication"]).text().contains("master_link_status:up")
    })
    .await;
}

/// Returns once the replica has all writes.
fn until_replicated(server: &RedisServer) {
    let mut session = server.session();
    session.call(&["SET", "written", "", "PX", "1"]);
    assert_eq!(session.call(&["WAIT", "1", "4000"]).integer(), 1);
}

/// Lets the second server take the place of the first, which then follows it. Connected clients stay connected.
async fn fail_over([first, second]: &[RedisServer; 2], name: &Proxy) {
    until_replicated(first);
    let port = second.port().to_string();
    second.cli(&["REPLICAOF", "NO", "ONE"]);
    name.lead_to(second.addr());
    first.cli(&["REPLICAOF", "127.0.0.1", &port]);
    until_it_follows(first).await;
}

async fn by_name(proxy: &Proxy) -> LockClient {
    client(&proxy.url()).await
}

/// S3: the release at the new primary finds no listener for the first waiter, and grants to the second. The former
/// primary receives published messages like any replica: the first waiter, which still listens there, must not
/// believe the grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_grant_for_another_that_a_replica_repeats_is_not_believed() {
    let servers = replicated().await;
    let proxy = Proxy::start(servers[0].addr()).await;
    let (holder, first, lock) = (by_name(&proxy).await, by_name(&proxy).await, fresh_name());
    let guard = held(&holder, &lock).await;
    let first = queued(&first, &holder, patient(&lock), &lock).await;
    fail_over(&servers, &proxy).await;
    let second = by_name(&proxy).await;
    let second = acquiring(&second, patient(&lock));
    eventually("the second listens", LIMIT, async || redis_connections(&servers[1], "pubsub") > 0)
        .await;
    released(guard).await;
    let mut waiting = [first, second];
    eventually("one is served", LIMIT, async || {
        waiting.iter().any(|waiting| waiting.is_finished())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    waiting.sort_by_key(|waiting| !waiting.is_finished());
    let [granted, other] = waiting;
    assert!(!other.is_finished(), "two believe");
    released(served(granted).await).await;
    released(served(other).await).await;
}

/// C27, C28: a client listens where it asks, so that the first waiter is served first, and by push.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_who_waits_listens_at_the_new_primary() {
    let servers = replicated().await;
    let proxy = Proxy::start(servers[0].addr()).await;
    let (holder, waiter, lock) = (by_name(&proxy).await, by_name(&proxy).await, fresh_name());
    let guard = held(&holder, &lock).await;
    let waiting = queued(&waiter, &holder, patient(&lock), &lock).await;
    assert_eq!(redis_connections(&servers[0], "pubsub"), 1);
    fail_over(&servers, &proxy).await;
    eventually("it listens there", LIMIT, async || redis_connections(&servers[1], "pubsub") == 1)
        .await;
    eventually("and no more here", LIMIT, async || redis_connections(&servers[0], "pubsub") == 0)
        .await;
    let place = async || holder.admin().inspect(&lock).await.expect("an answer").waiters;
    eventually("it is queued", LIMIT, async || place().await == Some(1)).await;
    released(guard).await;
    let next = timeout(LIMIT, waiting).await.expect("its turn comes").expect("no panic");
    released(next.expect("granted")).await;
}
