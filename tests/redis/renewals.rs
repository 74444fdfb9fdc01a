//! Renewals of two holds by one request.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::core::backend::{Extension, Renewal};
use leasehold::redis::RedisBackend;
use leasehold::{DistributedLock, LockRequest, Ttl};
use lock_testkit::{LeaseExt, RedisServer};

use crate::redis_idle::what_is_asked_once_is_done;
use crate::redis_renewals::{counters_outlast_holds, holds_last_for_their_own_ttls};
use crate::support::{MINUTE, client, fresh_name, patient, released};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_what_is_asked_once_after_an_idle_time_is_done() {
    let server = RedisServer::start().await;
    let locks = RedisBackend::connect(&server.url()).await.expect("a server");
    let fence = locks.fence("stock");
    what_is_asked_once_is_done(locks, fence, std::slice::from_ref(&server)).await;
}

/// C12: the value of a lock with many holders is long, and is read once for all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_the_holders_of_one_lock_are_read_once() {
    let server = RedisServer::start_with(&["--slowlog-log-slower-than", "0"]).await;
    let locks = RedisBackend::connect(&server.url()).await.expect("a server");
    let (name, other) = (fresh_name(), fresh_name());
    let request = LockRequest::new(&name).shared().label("a label").ttl(MINUTE);
    let mut renewals = Vec::new();
    for _ in 0..50 {
        let lease = locks.acquire_lease(&request).await.expect("it fits");
        renewals.push(Renewal::new(&lease, request_ttl()));
    }
    let lease =
        locks.acquire_lease(&LockRequest::new(&other).ttl(MINUTE)).await.expect("it is free");
    renewals.insert(25, Renewal::new(&lease, request_ttl()));
    let mut reader = server.session();
    reader.call(&["MONITOR"]);
    for answer in locks.extend(&renewals).await {
        assert_eq!(answer.expect("an answer"), Extension::Extended(MINUTE * 2));
    }
    let read = loop {
        let seen = reader.receive().expect("what the server does").text().to_owned();
        if seen.contains("\"MGET\"") {
            break seen;
        }
    };
    let count = |name: &str| read.matches(name).count();
    assert_eq!((count(&name), count(&other)), (1, 1), "{read}");
}

fn request_ttl() -> Ttl {
    Ttl::new(MINUTE * 2).expect("a good TTL")
}

/// C38: the time of a hold's end has the same length on a server without a battery for its clock, which starts in
/// 1970.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c38_a_server_in_1970_extends_shared_holds() {
    let server = RedisServer::start_with_clock(&[]).await;
    let Some(clock) = server.clock() else { return };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    clock.set_back(now - Duration::from_secs(1000));
    let client = client(&server.url()).await;
    let request = patient(&fresh_name()).shared();
    let one = client.acquire(request.clone()).await.expect("a free lock");
    let other = client.acquire(request).await.expect("it fits");
    for guard in [&one, &other] {
        // The time of its end gets a digit more.
        guard.extend(Ttl::MAX.as_duration()).await.expect("it is held");
    }
    let state = client.admin().inspect(one.name().as_str()).await.expect("an answer");
    let tokens: Vec<_> = state.holders.iter().filter_map(|holder| holder.token).collect();
    assert_eq!(tokens, [one.token(), other.token()]);
    released(one).await;
    released(other).await;
}
