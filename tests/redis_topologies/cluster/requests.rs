//! Cost of locks on a cluster.

use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use leasehold::{LockGuard, LockRequest};
use lock_testkit::{RedisCluster, RedisServer};

use super::{all_renewed, name_at, shared};
use crate::NEVER;
use crate::support::{client, fresh_name, held, patient, queued, released, served};

/// Returns a figure of the primaries, in sum.
fn told(cluster: &RedisCluster, section: &str, figure: &str) -> u64 {
    let of = |server: &RedisServer| {
        let info = server.cli(&["INFO", section]);
        let value = info.text().lines().find_map(|line| line.strip_prefix(figure));
        let digits = value.map(|value| value.split(',').next().unwrap_or_default().to_owned());
        digits.map_or(0, |digits| digits.parse::<u64>().expect("a number"))
    };
    cluster.servers().iter().map(of).sum()
}

/// Each request renews a hundred holds of one server, whatever their slots are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_thousands_of_holds_are_renewed_by_few_requests() {
    const HOLDS: u64 = 3_000;
    let cluster = RedisCluster::start(NEVER).await;
    let client = client(&cluster.url()).await;
    let ttl = Duration::from_secs(30);
    let requests = (0..HOLDS).map(|_| LockRequest::new(fresh_name()).ttl(ttl));
    let acquiring = stream::iter(requests.map(|request| client.acquire(request)));
    let guards: Vec<LockGuard> = acquiring.buffered(500).try_collect().await.expect("free");
    let requests = || told(&cluster, "commandstats", "cmdstat_evalsha:calls=");
    let before = requests();
    all_renewed(&guards).await;
    let made = requests() - before;
    println!("{HOLDS} holds: {made} requests");
    assert!((HOLDS / 100..=HOLDS / 20).contains(&made), "{made} requests");
    client.shutdown().await;
}

/// Holds of one server share requests, and wait for no other server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_silent_primary_costs_no_hold_of_another() {
    let cluster = RedisCluster::start(NEVER).await;
    let client = client(&cluster.url()).await;
    let mut guards = Vec::new();
    for number in [0, 1, 2] {
        let request = LockRequest::new(name_at(&cluster, number)).ttl(Duration::from_secs(9));
        guards.push(client.acquire(request).await.expect("a free lock"));
    }
    cluster.servers()[0].stop();
    for _ in 0..4 {
        all_renewed(&guards[1..]).await;
    }
    assert!(!guards[0].is_held(), "its server is silent for more than its TTL");
}

/// C26, C27: a waiter listens at the server that grants, so that one message hands a lock over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_lock_of_each_primary_is_handed_over_by_push() {
    let cluster = shared().await;
    let url = cluster.url();
    let (holder, waiter) = (client(&url).await, client(&url).await);
    for number in 0..3 {
        let name = name_at(cluster, number);
        let guard = held(&holder, &name).await;
        let waiting = queued(&waiter, &holder, patient(&name), &name).await;
        let entry = cluster.cli(&name, &["HVALS", &format!("{{{name}}}:waiters")]);
        assert!(entry.array()[0].text().contains(":leasehold-"), "it polls: {entry}");
        released(guard).await;
        let granted = cluster.cli(&name, &["EXISTS", &name]);
        assert_eq!(granted.integer(), 1, "the release has granted it to the waiter");
        released(served(waiting).await).await;
    }
}
