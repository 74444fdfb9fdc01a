//! C22: tokens grow through all events of a Postgres server; time is the server's.

use leasehold::core::backend::DistributedLockExt;
use lock_testkit::LeaseExt;
use std::time::Duration;

use leasehold::core::backend::{Attempt, Renewal};
use leasehold::postgres::PostgresBackend;
use leasehold::{
    DistributedLock, Fence, FenceError, LockClient, LockError, LockName, LockRequest, Ttl, Wait,
};
use lock_testkit::PostgresServer;

use crate::server::shared;
use crate::support::{
    MINUTE, busy_is_told_after_the_newest_grant, client, fresh_name, held, holder_of, patient,
    queued, released, served, steps_of_the_servers_clock, turn,
};

/// With data on disk, a crash loses neither a lock nor its token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_lock_and_its_token_survive_a_crash() {
    let settings = ["fsync=on", "full_page_writes=on", "synchronous_commit=off"];
    let mut server = PostgresServer::start_with(&settings).await;
    let (client, name, other) = (client(&server.url()).await, fresh_name(), fresh_name());
    let first = turn(&client, &other).await;
    let guard = client.acquire(patient(&name)).await.expect("a free lock");
    server.kill();
    server.restart().await;
    assert_eq!(holder_of(&client, &name).await.token, Some(guard.token()));
    guard.extend(MINUTE).await.expect("still held");
    assert!(turn(&client, &other).await > first);
}

/// C27: a crash empties the queue, and later waiters get places in the same order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_the_order_is_kept_after_a_crash() {
    let mut server = PostgresServer::start_with(&["fsync=on", "full_page_writes=on"]).await;
    let (first, second) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    let mut guard = held(&first, &name).await;
    for waiter in [&second, &first] {
        let waiting = queued(waiter, waiter, patient(&name), &name).await;
        released(guard).await;
        guard = served(waiting).await;
    }
    // A pushed grant is short until its holder renews it, and a restart may take longer.
    guard.extend(MINUTE).await.expect("still held");
    server.kill();
    server.restart().await;
    // Counts only waiters that have a place.
    let waiting = queued(&second, &second, patient(&name), &name).await;
    released(guard).await;
    released(served(waiting).await).await;
}

/// A counter ahead of the clock, as after a step of the clock, grows by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_counter_ahead_of_the_clock_goes_on() {
    let server = shared().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    server.psql(&format!("INSERT INTO leasehold.locks_grants VALUES ('{name}', 9007199254740000)"));
    assert_eq!(turn(&client, &name).await.get(), 9_007_199_254_740_001);
    assert_eq!(turn(&client, &name).await.get(), 9_007_199_254_740_002);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_busy_is_told_after_the_newest_grant() {
    let server = shared().await;
    let backend = leasehold::backend(&server.url()).await.expect("a connection");
    let set_newest = |name: &str, token: u128| {
        server.psql(&format!("INSERT INTO leasehold.locks_grants VALUES ('{name}', {token})"));
    };
    busy_is_told_after_the_newest_grant(&*backend, set_newest).await;
}

/// A counter at its end is refused, and nothing is granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_counter_at_its_end_is_a_typed_error_and_takes_no_lock() {
    let server = shared().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    server.psql(&format!("INSERT INTO leasehold.locks_grants VALUES ('{name}', 9007199254740991)"));
    let refused = client.acquire(LockRequest::new(&name).wait(Wait::Never)).await;
    let Err(LockError::Backend { source, .. }) = refused else { panic!("{refused:?}") };
    assert!(!source.is_transient() && source.to_string().contains("counter"), "{source}");
    assert_eq!(client.admin().inspect(&name).await.expect("an answer").holder(), None);
}

/// Whatever the default isolation of the database, each statement sees the results for which the statement before
/// it waited.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_serializable_database_changes_nothing() {
    let server = PostgresServer::start_with(&["default_transaction_isolation=serializable"]).await;
    let name = fresh_name();
    let mut workers = Vec::new();
    for _ in 0..4 {
        let (client, name) = (client(&server.url()).await, name.clone());
        workers.push(tokio::spawn(async move {
            for _ in 0..25 {
                turn(&client, &name).await;
            }
        }));
    }
    for worker in workers {
        worker.await.expect("no error and no panic");
    }
}

/// The next renewal notices a row that an operator deleted, or that expired on the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_hold_that_is_gone_from_the_table_is_noticed() {
    let server = shared().await;
    let client = client(&server.url()).await;
    for sql in [
        "DELETE FROM leasehold.locks_grants",
        "UPDATE leasehold.locks_grants SET expires_at = now()",
    ] {
        let name = fresh_name();
        let ttl = MINUTE / 10;
        let guard = client.acquire(patient(&name).ttl(ttl)).await.expect("a free lock");
        let first = guard.token();
        server.psql(&format!("{sql} WHERE name = '{name}'"));
        assert_eq!(guard.lost().await, leasehold::LostReason::Evicted);
        assert!(turn(&client, &name).await > first);
    }
}

/// Settings of a server that writes the last commits to disk only for commits that ask for it.
const FORGETFUL: [&str; 4] =
    ["fsync=on", "full_page_writes=on", "synchronous_commit=off", "wal_writer_delay=10s"];

/// C24: after a crash a stale token does not pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c24_the_mark_of_a_fence_survives_a_crash() {
    let mut server = PostgresServer::start_with(&FORGETFUL).await;
    let lock = PostgresBackend::connect(&server.url()).await.expect("a connection");
    let (client, name) = (LockClient::new(lock.clone()), fresh_name());
    let (stale, newest) = (turn(&client, &name).await, turn(&client, &name).await);
    lock.fence(&name).advance(newest).await.expect("the newest");
    server.kill();
    server.restart().await;
    let fence = PostgresBackend::connect(&server.url()).await.expect("a connection").fence(&name);
    let refused = fence.advance(stale).await;
    assert!(matches!(refused, Err(FenceError::Stale { .. })), "{refused:?}");
}

/// Returns the remaining time of a lock on the server after a crash.
async fn left_after_a_crash(server: &mut PostgresServer, name: &LockName) -> Duration {
    server.kill();
    server.restart().await;
    let state = client(&server.url()).await.admin().inspect(name).await.expect("an answer");
    state.holder().expect("held").ttl_left.expect("known")
}

/// C5: the holder of a lease relies on an extension.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c05_an_extension_survives_a_crash() {
    let mut server = PostgresServer::start_with(&FORGETFUL).await;
    let lock = PostgresBackend::connect(&server.url()).await.expect("a connection");
    let request = LockRequest::new(fresh_name()).ttl(MINUTE / 6);
    let lease = lock.acquire_lease(&request).await.expect("a free lock");
    let renewal = Renewal::new(&lease, Ttl::new(MINUTE).expect("a good TTL"));
    lock.extend_one(&renewal).await.expect("an answer");
    assert!(left_after_a_crash(&mut server, lease.name()).await > MINUTE / 2);
}

/// C5, C16: an owner that repeats its acquire relies on the answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c05_a_repeated_grant_survives_a_crash() {
    let mut server = PostgresServer::start_with(&FORGETFUL).await;
    let lock = PostgresBackend::connect(&server.url()).await.expect("a connection");
    let request = LockRequest::new(fresh_name()).ttl(MINUTE / 6);
    let mut claim = request.claim().expect("a good claim");
    for ttl in [MINUTE / 6, MINUTE] {
        claim.ttl = Ttl::new(ttl).expect("a good TTL");
        let granted = lock.acquire(&claim, None).await.expect("an answer");
        assert!(matches!(granted, Attempt::Granted(_)), "{granted:?}");
    }
    assert!(left_after_a_crash(&mut server, &claim.name).await > MINUTE / 2);
}

/// P1: a step forward ends holds early: two may believe.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p1_tokens_grow_though_the_servers_clock_is_set() {
    let server = PostgresServer::start_with_clock().await;
    steps_of_the_servers_clock(&server.url(), server.clock(), true).await;
}
