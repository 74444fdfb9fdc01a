//! Servers that are dead, stopped or unreachable, and the holds of that time.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lock_core::{ClientOptions, LockClient, LockError, LockGuard, LockRequest, LostReason, Wait};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::clients::{
    LIMIT, MINUTE, client_at, client_of, client_through, client_within, fresh_name, held,
    is_renewed, patient, queued, released, renewed, served, turn,
};
use super::harness::Harness;
use super::server::Server;
use crate::{Mode, eventually};

/// Asserts that a call fails, at most 100 ms after `limit` (C17).
pub async fn fails_in_time<H: Harness>(
    limit: Duration,
    call: impl Future<Output = Result<impl Debug, LockError>>,
) {
    let asked = Instant::now();
    let failed = call.await;
    let took = asked.elapsed();
    // Silence is not busy: another may or may not hold the lock.
    let is_told = failed.as_ref().is_err_and(|error| !error.is_busy());
    assert!(is_told, "without a server a call is to fail, and not as busy: {failed:?}");
    let bound = limit + Duration::from_millis(100) + H::SLACK;
    assert!(took < bound, "a call is to return within {bound:?}: it took {took:?}");
}

/// Asserts that each kind of call fails in time (C17), with a guard from before.
pub async fn every_call_fails_in_time<H: Harness>(client: &LockClient, held: LockGuard) {
    let name = fresh_name();
    let request = |wait| LockRequest::new(&name).ttl(MINUTE).wait(wait);
    let (short, limit) = (Duration::from_millis(300), H::REQUEST_TIMEOUT);
    fails_in_time::<H>(short, client.acquire(request(Wait::AtMost(short)))).await;
    fails_in_time::<H>(limit, client.acquire(request(Wait::Never))).await;
    fails_in_time::<H>(limit, client.admin().inspect(&name)).await;
    fails_in_time::<H>(limit, client.admin().list("", 9)).await;
    fails_in_time::<H>(limit, client.admin().evict(&name)).await;
    fails_in_time::<H>(limit, client.admin().doctor()).await;
    fails_in_time::<H>(limit, held.extend(MINUTE)).await;
    fails_in_time::<H>(limit, held.release_confirmed()).await;
}

/// C17, L3: a stopped server. Every call keeps its time-out, also with the faults below.
pub async fn c17_a_stopped_server_delays_no_call_beyond_its_time_out<H: Harness>() {
    let server = H::start().await;
    let client = client_at::<H>(server.addr()).await;
    let guard = held(&client, &fresh_name()).await;
    server.stop();
    every_call_fails_in_time::<H>(&client, guard).await;
    server.cont();
    turn(&client, &fresh_name()).await;
}

/// C17: a server that is dead.
pub async fn c17_a_dead_server_delays_no_call_beyond_its_time_out<H: Harness>() {
    let mut server = H::start().await;
    let client = client_at::<H>(server.addr()).await;
    let guard = held(&client, &fresh_name()).await;
    server.kill();
    every_call_fails_in_time::<H>(&client, guard).await;
    server.restart().await;
    turn(&client, &fresh_name()).await;
}

/// C17: a network that swallows everything.
pub async fn c17_a_black_hole_delays_no_call_beyond_its_time_out<H: Harness>() {
    let proxy = H::proxy(H::shared().await).await;
    let client = client_through::<H>(&proxy).await;
    let guard = held(&client, &fresh_name()).await;
    proxy.set(Mode::BlackHole);
    every_call_fails_in_time::<H>(&client, guard).await;
    proxy.set(Mode::Pass);
    turn(&client, &fresh_name()).await;
}

/// C15: a connection that is closed before the answer is an error that names the server.
pub async fn c15_a_closed_connection_names_the_server<H: Harness>() {
    let proxy = H::proxy(H::shared().await).await;
    let client = client_through::<H>(&proxy).await;
    turn(&client, &fresh_name()).await;
    proxy.set(Mode::CutAfter(1));
    let failed = client.acquire(LockRequest::new(fresh_name()).wait(Wait::Never)).await;
    let Err(LockError::Backend { source, .. }) = failed else { panic!("{failed:?}") };
    let port = format!(":{}", proxy.addr().port());
    assert!(source.is_transient() && source.to_string().contains(&port), "{port}: {source}");
}

/// C8, C9, L4: a server that stops under a holder is noticed by the deadline.
pub async fn c09_a_server_that_stops_under_a_holder_is_noticed_by_the_deadline<H: Harness>() {
    let server = H::start().await;
    let (client, ttl) = (client_at::<H>(server.addr()).await, Duration::from_secs(2));
    let guard = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
    server.stop();
    let stopped = Instant::now();
    let reason = timeout(LIMIT, guard.lost()).await.expect("the loss is told");
    assert_eq!(reason, LostReason::Expired);
    let took = stopped.elapsed();
    let bound = ttl + Duration::from_millis(50) + H::SLACK;
    assert!(took < bound, "the holder is to notice within {bound:?}: it took {took:?}");
    server.cont();
}

/// A pause of the server that is shorter than the TTL costs nobody the lock.
pub async fn c08_a_short_pause_of_the_server_is_no_loss<H: Harness>() {
    let server = H::start().await;
    let (client, ttl) = (client_at::<H>(server.addr()).await, Duration::from_secs(12));
    let guard = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
    server.stop();
    // The first renewal is due after a third, and fails after half.
    tokio::time::sleep(ttl * 7 / 12).await;
    server.cont();
    renewed(&guard).await;
    released(guard).await;
}

/// C22: a server that restarts has its holds, and its tokens continue.
pub async fn c22_a_hold_and_its_token_survive_a_restart<H: Harness>() {
    let mut server = H::start().await;
    let (client, name) =
        (client_within::<H>(server.addr(), 5 * H::REQUEST_TIMEOUT).await, fresh_name());
    let guard = held(&client, &name).await;
    server.kill();
    server.restart().await;
    let holder =
        client.admin().inspect(&name).await.expect("an answer").holder().cloned().expect("held");
    assert_eq!(holder.token, Some(guard.token()), "the hold is to survive with its token");
    guard.extend(MINUTE).await.expect("still held");
    let token = guard.token();
    released(guard).await;
    let next = turn(&client, &name).await;
    assert!(next > token, "the token of the next grant is to be greater: {next} after {token}");
}

/// Connections that swallow everything are replaced, since new ones work.
pub async fn a_swallowing_connection_is_replaced_while_the_lock_is_held<H: Harness>() {
    let proxy = H::proxy(H::shared().await).await;
    let (client, ttl) = (client_through::<H>(&proxy).await, Duration::from_secs(9));
    let guard = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
    for mode in [Mode::BlackHole, Mode::SwallowReplies, Mode::SwallowRequests] {
        // All connections of the client, which must all be replaced.
        let admin = client.admin();
        join_all((0..6).map(|_| admin.inspect(fresh_name()))).await;
        proxy.set_existing(mode);
        renewed(&guard).await;
    }
    released(guard).await;
}

/// A connection that opens more slowly than a renewal's time-out is still opened.
pub async fn c12_a_connection_that_is_slow_to_open_costs_no_hold<H: Harness>() {
    let proxy = H::proxy(H::shared().await).await;
    let (client, ttl) = (client_through::<H>(&proxy).await, Duration::from_secs(6));
    // On a busy machine a connection may take longer than its time limit.
    eventually("a hold is renewed", LIMIT, async || {
        proxy.set(Mode::Pass);
        let guard = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
        proxy.set(Mode::SlowToOpen(ttl / 6 + Duration::from_millis(200)));
        proxy.cut();
        is_renewed(&guard).await && guard.release().await.is_ok()
    })
    .await;
}

/// A server, or a proxy, that closes idle connections causes no error in the next call.
pub async fn a_connection_that_was_closed_while_idle_is_no_error<H: Harness>() {
    let proxy = H::proxy(H::shared().await).await;
    let client = client_through::<H>(&proxy).await;
    turn(&client, &fresh_name()).await;
    proxy.cut();
    let guard = client.try_acquire(patient(&fresh_name())).await.expect("no error").expect("free");
    proxy.cut();
    released(guard).await;
}

/// A lock whose first runtime is gone works on another, also for waiters.
pub async fn a_lock_outlives_the_runtime_it_was_first_used_on<H: Harness>() {
    let address = H::shared().await.addr();
    let outside_of_runtimes = move || {
        let (first, second) = (runtime(), runtime());
        let lock = first.block_on(H::connect_at(address));
        let hand_over = async || {
            let (holder, waiter) = (client_of::<H>(lock.clone()), client_of::<H>(lock.clone()));
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

/// C12: a client whose calls run on a runtime of its own keeps its holds while the application's runtime stands still,
/// also over a connection that was opened again.
pub async fn c12_a_client_on_its_own_runtime_renews_while_the_application_stands_still<
    H: Harness,
>() {
    const TTL: Duration = Duration::from_secs(8);
    let proxy = H::proxy(H::shared().await).await;
    let stands_still = move || {
        let application = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let own = runtime();
        let options = ClientOptions::new().request_timeout(H::REQUEST_TIMEOUT);
        let backend = own.block_on(H::connect_at(proxy.addr()));
        let locks = LockClient::with_options(backend, options.runtime(own.handle().clone()));
        let acquired = |name: String| {
            let locks = locks.clone();
            own.spawn(async move { locks.acquire(patient(&name).ttl(TTL)).await })
        };
        application.block_on(async {
            let guard = acquired(fresh_name()).await.expect("no panic").expect("a free lock");
            proxy.cut();
            let other = acquired(fresh_name()).await.expect("no panic").expect("a free lock");
            // Nothing of the application is polled.
            std::thread::sleep(TTL * 2);
            assert!(guard.is_held() && other.is_held(), "nobody renewed it: {guard:?}, {other:?}");
            own.spawn(async { released(guard).await }).await.expect("no panic");
        });
        drop(locks);
    };
    tokio::task::spawn_blocking(stands_still).await.expect("no panic");
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().enable_all().worker_threads(2).build().expect("a runtime")
}
