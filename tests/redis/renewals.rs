//! Renewals of two holds by one request.

use std::sync::Arc;

use leasehold::redis::RedisBackend;
use lock_testkit::RedisServer;

use crate::redis_renewals::{counters_outlast_holds, holds_last_for_their_own_ttls};
use crate::support::fresh_name;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_counter_lasts_for_as_long_as_its_lock_is_held() {
    let server = RedisServer::start().await;
    let locks = Arc::new(RedisBackend::connect(&server.url()).await.expect("a server"));
    counters_outlast_holds(locks, [fresh_name(), fresh_name()], |_, command| {
        vec![server.cli(command)]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_holds_of_one_request_last_for_a_ttl_each() {
    let server = RedisServer::start().await;
    let locks = Arc::new(RedisBackend::connect(&server.url()).await.expect("a server"));
    holds_last_for_their_own_ttls(locks, [fresh_name(), fresh_name()], |_, command| {
        vec![server.cli(command)]
    })
    .await;
}
