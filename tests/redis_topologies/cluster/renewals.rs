//! Renewals of two holds of one server, in different slots, by one request.

use super::{name_at, shared};
use crate::redis_renewals::{counters_outlast_holds, holds_last_for_their_own_ttls};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_counter_lasts_for_as_long_as_its_lock_is_held() {
    let cluster = shared().await;
    let locks = crate::support::connected(&cluster.url()).await;
    let names = [name_at(cluster, 0), name_at(cluster, 0)];
    counters_outlast_holds(locks, names, |key, command| vec![cluster.cli(key, command)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_holds_of_one_request_last_for_a_ttl_each() {
    let cluster = shared().await;
    let locks = crate::support::connected(&cluster.url()).await;
    let names = [name_at(cluster, 0), name_at(cluster, 0)];
    holds_last_for_their_own_ttls(locks, names, |key, command| vec![cluster.cli(key, command)])
        .await;
}
