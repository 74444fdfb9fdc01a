//! Renewals of two holds by one request to each server.

use leasehold::redis::QuorumBackend;

use crate::redis_idle::what_is_asked_once_is_done;
use crate::redis_renewals::{counters_outlast_holds, holds_last_for_their_own_ttls};
use crate::set::Set;
use crate::support::fresh_name;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_counter_lasts_for_as_long_as_its_lock_is_held() {
    let set = Set::three().await;
    let (locks, names) = (set.backend().await, [fresh_name(), fresh_name()]);
    counters_outlast_holds(locks, names, |_, command| set.cli(command)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_holds_of_one_request_last_for_a_ttl_each() {
    let set = Set::three().await;
    let (locks, names) = (set.backend().await, [fresh_name(), fresh_name()]);
    holds_last_for_their_own_ttls(locks, names, |_, command| set.cli(command)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_what_is_asked_once_after_an_idle_time_is_done() {
    let set = Set::of(3).await;
    let locks = QuorumBackend::connect(&set.url()).await.expect("three servers");
    let fence = locks.fence("stock");
    what_is_asked_once_is_done(locks, fence, &set.servers).await;
}
