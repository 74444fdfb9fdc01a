//! Idle waiters ask the server again and again.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{LockRequest, Wait, connect};
use lock_testkit::{ZooKeeperServer, eventually};
use tokio::time::sleep;

use crate::verdict::{Verdict, turn};

/// Time for which requests are counted.
const COUNTED: Duration = Duration::from_secs(5);

/// Requests a second that a waiter may add to the pings of its sessions.
const BOUND: f64 = 1.0;

pub(crate) async fn run(size: usize) -> Verdict {
    let server = ZooKeeperServer::start().await;
    let connected = (0..=size).map(async |_| connect(&server.url()).await.expect("a connection"));
    let clients = join_all(connected).await;
    for client in &clients {
        turn(client, "another").await;
    }
    let guard = clients[0].acquire("a").await.expect("a free lock");
    let idle = packets(&server).await / size as f64;
    let waits = clients[1..].iter().cloned().map(|client| {
        let request = LockRequest::new("a").wait(Wait::Forever);
        tokio::spawn(async move { client.acquire(request).await })
    });
    let waits: Vec<_> = waits.collect();
    eventually("all wait", Duration::from_secs(60), async || {
        let state = clients[0].admin().inspect("a").await;
        state.is_ok_and(|state| state.waiters == Some(size as u64))
    })
    .await;
    let waiting = packets(&server).await / size as f64;
    waits.iter().for_each(|wait| wait.abort());
    drop(guard);
    let seen = format!("{idle:.1} requests a second of an idle client, {waiting:.1} of a waiter");
    Verdict::of("a waiter adds less than one request a second", seen, waiting - idle < BOUND)
}

/// Returns the number of requests a second at the server.
async fn packets(server: &ZooKeeperServer) -> f64 {
    let count = async || {
        let state = server.ask("mntr").await.expect("an answer");
        let line = state.lines().find(|line| line.starts_with("zk_packets_received"));
        let count = line.and_then(|line| line.split_whitespace().nth(1)).expect("a count");
        count.parse::<f64>().expect("a number")
    };
    let before = count().await;
    sleep(COUNTED).await;
    (count().await - before) / COUNTED.as_secs_f64()
}
