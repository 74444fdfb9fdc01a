//! Clients that take turns at an idle store raise the floor of tokens for each other for ever.

use std::time::Duration;

use leasehold::{LockClient, connect};
use lock_testkit::{EtcdServer, ZooKeeperServer};
use tokio::time::sleep;

use crate::verdict::{Verdict, turn};

/// Pause between two turns: the floor is raised if it is 10 ms behind.
const PAUSE: Duration = Duration::from_millis(30);

/// Longest share of a turn of two clients to that of one.
const BOUND: f64 = 1.2;

pub(crate) async fn run(turns: usize) -> Verdict {
    let (etcd, zookeeper) = (EtcdServer::start().await, ZooKeeperServer::start().await);
    let on_etcd =
        shares(&etcd.url(), turns, async || number(&etcd.metrics().await, COMMITTED)).await;
    let on_zookeeper = shares(&zookeeper.url(), turns, async || {
        number(&zookeeper.ask("mntr").await.expect("an answer"), "zk_packets_received")
    })
    .await;
    let is_right = [on_etcd, on_zookeeper].iter().all(|(alone, both)| *both <= alone * BOUND);
    let seen = format!(
        "etcd {:.1} commits a turn alone, {:.1} in turns; ZooKeeper {:.1} requests alone, {:.1} in turns",
        on_etcd.0, on_etcd.1, on_zookeeper.0, on_zookeeper.1
    );
    Verdict::of("a turn costs the same, whoever had the one before", seen, is_right)
}

const COMMITTED: &str = "etcd_server_proposals_committed_total";

/// Returns the requests of a turn of one client alone, and of one of two clients.
async fn shares(url: &str, turns: usize, count: impl AsyncFn() -> f64) -> (f64, f64) {
    let clients = [connect(url).await, connect(url).await];
    let clients = clients.map(|client| client.expect("a connection"));
    let of = async |clients: &[LockClient]| {
        let before = count().await;
        for number in 0..turns {
            sleep(PAUSE).await;
            turn(&clients[number % clients.len()], "a").await;
        }
        (count().await - before) / turns as f64
    };
    // The first turn opens the session.
    of(&clients).await;
    (of(&clients[..1]).await, of(&clients).await)
}

/// Returns the value of a metric.
fn number(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find(|line| line.starts_with(name)).expect("the metric");
    line.split_whitespace().next_back().expect("a value").parse().expect("a number")
}
