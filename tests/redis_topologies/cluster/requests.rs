//! What locks on a cluster cost.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{LockGuard, LockRequest};
use lock_testkit::{RedisCluster, RedisServer, eventually};

use super::shared;
use crate::support::{LIMIT, client, fresh_name, held, patient, queued, released, served};

/// A figure that the primaries tell, in sum.
fn told(cluster: &RedisCluster, section: &str, figure: &str) -> u64 {
    let of = |server: &RedisServer| {
        let info = server.cli(&["INFO", section]);
        let value = info.text().lines().find_map(|line| line.strip_prefix(figure));
        let digits = value.map(|value| value.split(',').next().unwrap_or_default().to_owned());
        digits.map_or(0, |digits| digits.parse::<u64>().expect("a number"))
    };
    cluster.servers().iter().map(of).sum()
}

/// C12: a script is for one slot, so each hold is a request of its own; those to one server go in few writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_holds_over_all_slots_are_renewed_in_few_writes() {
    const HOLDS: u64 = 600;
    let cluster = RedisCluster::start(super::NEVER).await;
    let client = client(&cluster.url()).await;
    let ttl = Duration::from_secs(9);
    let requests = (0..HOLDS).map(|_| LockRequest::new(fresh_name()).ttl(ttl));
    let guards = join_all(requests.map(|request| client.acquire(request))).await;
    let guards: Vec<LockGuard> = guards.into_iter().map(|guard| guard.expect("free")).collect();
    let deadlines = || guards.iter().map(LockGuard::deadline).collect::<Vec<_>>();
    let seen = || {
        let calls = told(&cluster, "commandstats", "cmdstat_evalsha:calls=");
        (calls, told(&cluster, "stats", "total_reads_processed:"))
    };
    let before = seen();
    let first = deadlines();
    eventually("all are renewed", LIMIT, async || {
        guards.iter().zip(&first).all(|(guard, first)| guard.deadline() != *first)
    })
    .await;
    let after = seen();
    let (calls, reads) = (after.0 - before.0, after.1 - before.1);
    println!(
        "{HOLDS} holds: {calls} requests, {reads} reads of all servers, the replication's among them"
    );
    assert!(guards.iter().all(LockGuard::is_held));
    // Those that happen to share a slot share a request.
    assert!((HOLDS * 9 / 10..=HOLDS * 2).contains(&calls), "{calls} requests");
    client.shutdown().await;
}

/// C26, C27: a waiter hears from the server that grants, so that one message hands a lock over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_lock_of_each_primary_is_handed_over_by_push() {
    let cluster = shared().await;
    let url = cluster.url();
    let (holder, waiter) = (client(&url).await, client(&url).await);
    for number in 0..3 {
        let name = super::name_at(cluster, number);
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
