//! Servers that are dead, that are stopped, or that no byte reaches; and the holds of that time.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::{LockClient, LockError, LockGuard, LockRequest, LostReason, Wait};
use lock_testkit::{Mode, Proxy};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::{
    LIMIT, MINUTE, REQUEST_TIMEOUT, SLACK, Server, client, client_of, client_through, fresh_name,
    held, patient, queued, released, renewed, served, turn,
};

pub(crate) async fn fails_in_time<T: Debug>(
    limit: Duration,
    call: impl Future<Output = Result<T, LockError>>,
) {
    let asked = Instant::now();
    let failed = call.await;
    let took = asked.elapsed();
    assert!(failed.is_err(), "{failed:?} without a server");
    assert!(took < limit + Duration::from_millis(100) + SLACK, "{took:?} at a limit of {limit:?}");
}

pub(crate) async fn every_call_fails_in_time(client: &LockClient, held: LockGuard) {
    let name = fresh_name();
    let request = |wait| LockRequest::new(&name).ttl(MINUTE).wait(wait);
    let short = Duration::from_millis(300);
    fails_in_time(short, client.acquire(request(Wait::AtMost(short)))).await;
    fails_in_time(REQUEST_TIMEOUT, client.acquire(request(Wait::Never))).await;
    fails_in_time(REQUEST_TIMEOUT, client.inspect(&name)).await;
    fails_in_time(REQUEST_TIMEOUT, client.list("", 9)).await;
    fails_in_time(REQUEST_TIMEOUT, client.evict(&name)).await;
    fails_in_time(REQUEST_TIMEOUT, client.doctor()).await;
    fails_in_time(REQUEST_TIMEOUT, held.extend(MINUTE)).await;
    fails_in_time(REQUEST_TIMEOUT, held.release_confirmed()).await;
}

/// L3: as in the faults below, every call honours its time-out.
pub(crate) async fn c17_a_stopped_server_delays_no_call_beyond_its_time_out<S: Server>() {
    let server = S::start().await;
    let client = client(&server.url()).await;
    let guard = held(&client, &fresh_name()).await;
    server.stop();
    every_call_fails_in_time(&client, guard).await;
    server.cont();
    turn(&client, &fresh_name()).await;
}

pub(crate) async fn c17_a_dead_server_delays_no_call_beyond_its_time_out<S: Server>() {
    let mut server = S::start().await;
    let client = client(&server.url()).await;
    let guard = held(&client, &fresh_name()).await;
    server.kill();
    every_call_fails_in_time(&client, guard).await;
    server.restart().await;
    turn(&client, &fresh_name()).await;
}

pub(crate) async fn c17_a_black_hole_delays_no_call_beyond_its_time_out<S: Server>() {
    let proxy = Proxy::start(S::shared().await.addr()).await;
    let client = client_through::<S>(&proxy).await;
    let guard = held(&client, &fresh_name()).await;
    proxy.set(Mode::BlackHole);
    every_call_fails_in_time(&client, guard).await;
    proxy.set(Mode::Pass);
    turn(&client, &fresh_name()).await;
}

/// C8, C9, L4: a server that stops under a holder is noticed by the deadline.
pub(crate) async fn c09_a_server_that_stops_under_a_holder_is_noticed_by_the_deadline<S: Server>() {
    let server = S::start().await;
    let (client, ttl) = (client(&server.url()).await, Duration::from_secs(2));
    let guard = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
    server.stop();
    let stopped = Instant::now();
    let reason = timeout(LIMIT, guard.lost()).await.expect("the loss is told");
    assert_eq!(reason, LostReason::Expired);
    let took = stopped.elapsed();
    assert!(took < ttl + Duration::from_millis(50) + SLACK, "noticed after {took:?}");
    server.cont();
}

/// A pause of the server that is shorter than the TTL costs nobody the lock.
pub(crate) async fn c08_a_short_pause_of_the_server_is_no_loss<S: Server>() {
    let server = S::start().await;
    let (client, ttl) = (client(&server.url()).await, Duration::from_secs(3));
    let guard = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
    server.stop();
    tokio::time::sleep(ttl / 2).await;
    server.cont();
    renewed(&guard).await;
    released(guard).await;
}

pub(crate) async fn c22_a_hold_and_its_token_survive_a_restart<S: Server>() {
    let mut server = S::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    let guard = held(&client, &name).await;
    server.kill();
    server.restart().await;
    let holder = client.inspect(&name).await.expect("an answer").holder.expect("held");
    assert_eq!(holder.token, Some(guard.token()));
    guard.extend(MINUTE).await.expect("still held");
    let token = guard.token();
    released(guard).await;
    assert!(turn(&client, &name).await > token);
}

/// Connections that swallow everything are given up, since new ones work.
pub(crate) async fn a_swallowing_connection_is_replaced_while_the_lock_is_held<S: Server>() {
    let proxy = Proxy::start(S::shared().await.addr()).await;
    let (client, ttl) = (client_through::<S>(&proxy).await, Duration::from_secs(2));
    let guard = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
    for mode in [Mode::BlackHole, Mode::SwallowReplies, Mode::SwallowRequests] {
        // As many connections as the client ever has, all of which are to be replaced.
        join_all((0..6).map(|_| client.inspect(fresh_name()))).await;
        proxy.set_existing(mode);
        renewed(&guard).await;
    }
    released(guard).await;
}

/// A connection that takes longer to make than a renewal may is made all the same.
pub(crate) async fn c12_a_connection_that_is_slow_to_open_costs_no_hold<S: Server>() {
    let proxy = Proxy::start(S::shared().await.addr()).await;
    let (client, ttl) = (client_through::<S>(&proxy).await, Duration::from_secs(3));
    let guard = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
    proxy.set(Mode::SlowToOpen(ttl / 6 + Duration::from_millis(200)));
    proxy.cut();
    renewed(&guard).await;
    released(guard).await;
}

/// A server, or a box on the way, that closes idle connections is no error to the next call.
pub(crate) async fn a_connection_that_was_closed_while_idle_is_no_error<S: Server>() {
    let proxy = Proxy::start(S::shared().await.addr()).await;
    let client = client_through::<S>(&proxy).await;
    turn(&client, &fresh_name()).await;
    proxy.cut();
    let guard = client.try_acquire(patient(&fresh_name())).await.expect("no error").expect("free");
    proxy.cut();
    released(guard).await;
}

/// A lock whose first user's runtime is gone works on another, with waiters and all.
pub(crate) async fn a_lock_outlives_the_runtime_it_was_first_used_on<S: Server>() {
    let url = S::shared().await.url();
    let outside_of_runtimes = move || {
        let (first, second) = (runtime(), runtime());
        let lock = first.block_on(leasehold::backend(&url)).expect("a connection");
        let hand_over = async || {
            let (holder, waiter) = (client_of(lock.clone()), client_of(lock.clone()));
            let name = fresh_name();
            let guard = held(&holder, &name).await;
            let waiting = queued(&waiter, &holder, patient(&name), &name).await;
            released(guard).await;
            released(served(waiting).await).await;
        };
        first.block_on(hand_over());
        drop(first);
        second.block_on(hand_over());
        second.shutdown_background();
        drop(lock);
    };
    tokio::task::spawn_blocking(outside_of_runtimes).await.expect("no panic");
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().enable_all().worker_threads(2).build().expect("a runtime")
}
