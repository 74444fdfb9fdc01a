//! Primaries that die, or are replaced though they are well, and come back as replicas.

use leasehold::Wait;
use lock_testkit::RedisSentinels;

use super::SOON;
use crate::forgotten::{replicated, what_is_forgotten_is_told};
use crate::load::{Load, table};
use crate::support::{MINUTE, client, fresh_name, held, patient, queued, released, served, turn};

/// The primary is lost and found again: it dies, and comes back as a replica of its successor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_and_its_waiter_outlive_their_primary() {
    let mut sentinels = RedisSentinels::start(SOON).await;
    let url = sentinels.url();
    let (holder, waiter, name) = (client(&url).await, client(&url).await, fresh_name());
    let guard = held(&holder, &name).await;
    let token = guard.token();
    let request = patient(&name).wait(Wait::AtMost(MINUTE * 2));
    let waiting = queued(&waiter, &holder, request, &name).await;
    replicated(&sentinels.servers()[0], &name, 2);
    sentinels.server(0).kill();
    sentinels.until_replaced(0).await;
    guard.extend(MINUTE).await.expect("it is held, at its new primary");
    sentinels.server(0).restart().await;
    sentinels.until_replicated().await;
    guard.extend(MINUTE * 2).await.expect("it is held");
    released(guard).await;
    let next = served(waiting).await;
    assert!(next.token() > token, "{} after {token}", next.token());
    released(next).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_tokens_grow_past_what_a_failover_forgot() {
    let mut sentinels = RedisSentinels::start(SOON).await;
    let (client, name) = (client(&sentinels.url()).await, fresh_name());
    let known = turn(&client, &name).await;
    replicated(&sentinels.servers()[0], &name, 2);
    sentinels.cut_replicas_off(0);
    let fail_over = async {
        sentinels.server(0).kill();
        sentinels.until_replaced(0).await;
    };
    what_is_forgotten_is_told(&client, &name, known, fail_over).await;
}

/// A failover under load, as a table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_failover_under_load_repeats_no_token() {
    let mut sentinels = RedisSentinels::start(SOON).await;
    let load = Load::start("a lock", &sentinels.url(), &fresh_name()).await;
    load.until_granted(100).await;
    sentinels.server(0).kill();
    let granted = load.mark();
    sentinels.until_replaced(0).await;
    load.until_granted(granted + 100).await;
    let row = load.end().await;
    println!("{}", table("Sentinel: the primary is killed", std::slice::from_ref(&row)));
    assert_eq!(row.repeated, 0, "{row:?}");
    assert!(row.after > row.before, "{row:?}");
}
