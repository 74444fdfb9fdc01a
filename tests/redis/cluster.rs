//! A server in cluster mode with all slots, as some services offer it. It is not supported, but it works.

use std::time::Duration;

use leasehold::LockRequest;
use leasehold::admin::Health;
use lock_testkit::{RedisServer, eventually};

use crate::support::{LIMIT, client, finding, fresh_name, released, renewed};

async fn server() -> RedisServer {
    let server = RedisServer::start_with(&["--cluster-enabled", "yes"]).await;
    let slots: Vec<String> = (0..16384).map(|slot: u32| slot.to_string()).collect();
    let add = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str));
    server.cli(&add.collect::<Vec<_>>());
    eventually("the slots are served", LIMIT, async || {
        server.cli(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok")
    })
    .await;
    server
}

/// C12: such a server refuses to renew locks of several slots in one request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_holds_in_several_slots_are_renewed() {
    let server = server().await;
    let (client, ttl) = (client(&server.url()).await, Duration::from_secs(9));
    let mut guards = Vec::new();
    for _ in 0..5 {
        let request = LockRequest::new(fresh_name()).ttl(ttl);
        guards.push(client.acquire(request).await.expect("a free lock"));
    }
    for guard in &guards {
        renewed(guard).await;
    }
    for guard in guards {
        released(guard).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_cluster_is_named() {
    let server = server().await;
    let role = finding(&client(&server.url()).await, "role").await;
    assert_eq!(role.health, Health::Risk);
    assert!(role.to_string().contains("cluster"), "{role}");
}
