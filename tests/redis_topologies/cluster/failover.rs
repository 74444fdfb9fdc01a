//! Primaries that die, and come back, while their locks are held and waited for.

use leasehold::Wait;
use lock_testkit::RedisCluster;

use super::{SOON, name_at};
use crate::forgotten::{replicated, what_is_forgotten_is_told};
use crate::load::{Load, table};
use crate::support::{MINUTE, client, fresh_name, held, patient, queued, released, served, turn};

/// A hold outlasts the death of its primary, its waiter comes next, and the server that comes back does no harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_and_its_waiter_outlive_their_primary() {
    let mut cluster = RedisCluster::start(SOON).await;
    let url = cluster.url();
    let (holder, waiter) = (client(&url).await, client(&url).await);
    let name = name_at(&cluster, 0);
    let guard = held(&holder, &name).await;
    let token = guard.token();
    let request = patient(&name).wait(Wait::AtMost(MINUTE * 2));
    let waiting = queued(&waiter, &holder, request, &name).await;
    replicated(&cluster.servers()[0], &name, 1);
    cluster.server(0).kill();
    // Other locks are not delayed by a server that is away.
    let other = (0..).map(|_| fresh_name()).find(|name| cluster.primary_of(name) != 0);
    turn(&holder, &other.expect("a name")).await;
    cluster.until_replaced(0, &name).await;
    guard.extend(MINUTE).await.expect("it is held, at its new primary");
    cluster.server(0).restart().await;
    cluster.until_whole().await;
    guard.extend(MINUTE * 2).await.expect("it is held");
    released(guard).await;
    let next = served(waiting).await;
    assert!(next.token() > token, "{} after {token}", next.token());
    released(next).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_tokens_grow_past_what_a_failover_forgot() {
    let mut cluster = RedisCluster::start(SOON).await;
    let client = client(&cluster.url()).await;
    let name = name_at(&cluster, 0);
    let known = turn(&client, &name).await;
    replicated(&cluster.servers()[0], &name, 1);
    cluster.cut_replicas_off(0);
    let fail_over = async {
        cluster.server(0).kill();
        cluster.until_replaced(0, &name).await;
    };
    what_is_forgotten_is_told(&client, &name, known, fail_over).await;
}

/// A failover under load, as a table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_failover_under_load_repeats_no_token() {
    let mut cluster = RedisCluster::start(SOON).await;
    let (name, other) = (name_at(&cluster, 0), name_at(&cluster, 1));
    let loads = [
        Load::start("a lock of the primary that dies", &cluster.url(), &name).await,
        Load::start("a lock of another primary", &cluster.url(), &other).await,
    ];
    for load in &loads {
        load.until_granted(100).await;
    }
    cluster.server(0).kill();
    let killed = loads.each_ref().map(Load::mark);
    cluster.until_replaced(0, &name).await;
    for (load, grants) in loads.iter().zip(killed) {
        load.until_granted(grants + 100).await;
    }
    cluster.server(0).restart().await;
    cluster.until_whole().await;
    let mut rows = Vec::new();
    for load in loads {
        rows.push(load.end().await);
    }
    println!("{}", table("Cluster: a primary is killed", &rows));
    for row in &rows {
        assert_eq!(row.repeated, 0, "{row:?}");
        assert!(row.after > row.before, "{row:?}");
    }
    assert!(rows[1].longest_pause < SOON, "a lock of another server was delayed: {rows:?}");
}
