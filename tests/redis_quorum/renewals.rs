//! Renewals of two holds by one request to each server.

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
