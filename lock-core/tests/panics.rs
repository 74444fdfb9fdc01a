//! A panic in a backend, a metrics recorder, a tracing layer or a clock prevents no renewal and no release. A
//! runtime that does not run the tasks of a client is reported at the next acquisition.

#![allow(clippy::expect_used, clippy::panic)]

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use lock_core::backend::{
    Attempt, Claim, Extension, LossWatch, Release, Renewal, WaiterHandle, async_trait,
};
use lock_core::{
    BackendError, Capabilities, ClientOptions, Clock, DistributedLock, Lease, LockClient,
    LockError, LockGuard, LockName, LockRequest, MemoryBackend, Moment, OwnerId, SystemClock,
};
use lock_testkit::{Fault, Faulty, Operation, eventually};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const SECOND: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(30);

fn faulty_client() -> (LockClient, Faulty) {
    let faulty = Faulty::new(Arc::new(MemoryBackend::new()));
    (LockClient::new(faulty.clone()), faulty)
}

async fn held(client: &LockClient, name: &str) -> LockGuard {
    client.acquire(LockRequest::new(name).ttl(SECOND)).await.expect("a free lock")
}

async fn until_free(client: &LockClient, name: &str) {
    eventually("it is given back", LIMIT, async || {
        client.admin().inspect(name).await.expect("an answer").holder().is_none()
    })
    .await;
}

/// C12: a renewal that panics counts as failed: each hold of its batch is renewed alone, and renewing goes on.
#[tokio::test(start_paused = true)]
async fn c12_a_panic_of_the_backend_costs_no_hold_its_renewals() {
    let (client, faulty) = faulty_client();
    let guards = [held(&client, "a").await, held(&client, "b").await];
    faulty.once(Operation::Extend, Fault::Panic);
    eventually("the batch is extended", LIMIT, async || faulty.calls(Operation::Extend) >= 3).await;
    // The batch again, and each of its holds alone.
    for _ in 0..3 {
        faulty.once(Operation::Extend, Fault::Panic);
    }
    sleep(SECOND * 10).await;
    assert!(guards.iter().all(LockGuard::is_held), "{guards:?}");
}

/// C8: a loss names the panic of the last renewal.
#[tokio::test(start_paused = true)]
async fn c08_a_loss_by_panics_names_them() {
    let (client, faulty) = faulty_client();
    let guard = held(&client, "a").await;
    faulty.always(Operation::Extend, Fault::Panic);
    guard.lost().await;
    let error = guard.release().await.expect_err("it is lost").to_string();
    assert!(error.contains("the backend panicked: a panic of the test"), "{error}");
}

/// C16: an acquisition retries after a panic, and so does the head of a queue.
#[tokio::test(start_paused = true)]
async fn c16_a_panic_of_the_backend_costs_no_acquisition() {
    let (client, faulty) = faulty_client();
    for _ in 0..3 {
        faulty.once(Operation::Acquire, Fault::Panic);
    }
    let (first, second) = tokio::join!(async { held(&client, "a").await.release().await }, async {
        held(&client, "a").await.release().await
    },);
    first.and(second).expect("held to the end");
    until_free(&client, "a").await;
}

/// C20: the janitor retries after a panic.
#[tokio::test(start_paused = true)]
async fn c20_a_panic_of_the_backend_costs_no_release() {
    let (client, faulty) = faulty_client();
    let long = LockRequest::new("a").ttl(SECOND * 3600);
    let guard = client.acquire(long).await.expect("a free lock");
    faulty.once(Operation::Release, Fault::Panic);
    drop(guard);
    until_free(&client, "a").await;
}

/// C15: a panic is the error of one try, which is repeated, whatever is asked.
#[tokio::test(start_paused = true)]
async fn c15_a_panic_of_the_backend_is_an_error_of_its_request() {
    let (client, faulty) = faulty_client();
    let guard = held(&client, "a").await;
    faulty.once(Operation::Extend, Fault::Panic);
    guard.extend(SECOND * 2).await.expect("the second try");
    faulty.once(Operation::Release, Fault::Panic);
    guard.release().await.expect("held to the end");
    until_free(&client, "a").await;
}

/// A backend whose watch for losses panics.
#[derive(Debug)]
struct Unwatchable(MemoryBackend);

#[async_trait]
impl DistributedLock for Unwatchable {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        self.0.acquire(claim, waiter).await
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        self.0.extend(renewals).await
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.0.release(name, owner).await
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        self.0.withdraw(name, owners).await
    }

    fn watch(&self, _: &Lease) -> Option<LossWatch> {
        panic!("a panic of the test")
    }
}

/// C15: a hold whose watch panics has a guard, is renewed, and ends with the guard.
#[tokio::test(start_paused = true)]
async fn c15_a_panic_of_a_watch_costs_no_acquisition() {
    let client = LockClient::new(Unwatchable(MemoryBackend::new()));
    let guard = held(&client, "a").await;
    sleep(SECOND * 10).await;
    assert!(guard.is_held(), "{guard:?}");
    drop(guard);
    let _next = held(&client, "a").await;
}

/// C12: a metrics recorder that panics loses only its counts.
#[tokio::test(start_paused = true)]
async fn c12_a_panic_of_a_recorder_costs_no_hold() {
    let broken = Arc::new(AtomicBool::new(false));
    let group = {
        let broken = broken.clone();
        move |_: &_| match broken.load(Ordering::Relaxed) {
            true => panic!("a panic of the test"),
            false => "all",
        }
    };
    let options = ClientOptions::new().metric_group(group);
    let client = LockClient::with_options(MemoryBackend::new(), options);
    let (kept, dropped) = (held(&client, "kept").await, held(&client, "dropped").await);
    broken.store(true, Ordering::Relaxed);
    drop(dropped);
    sleep(SECOND * 10).await;
    assert!(kept.is_held(), "{kept:?}");
    until_free(&client, "dropped").await;
    kept.release().await.expect("held to the end");
    held(&client, "next").await.release().await.expect("held to the end");
}

/// Panics at each event while `events` is true, and once at the exit of a span when `exit` is true.
#[derive(Default)]
struct Broken {
    events: Arc<AtomicBool>,
    exit: Arc<AtomicBool>,
}

impl Subscriber for Broken {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {
        assert!(!self.events.load(Ordering::Relaxed), "a panic of the test");
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {
        assert!(!self.exit.swap(false, Ordering::Relaxed), "a panic of the test");
    }
}

/// C12: a tracing layer that panics loses only its events.
#[tokio::test(start_paused = true)]
async fn c12_a_panic_of_a_tracing_layer_costs_no_hold() {
    let layer = Broken::default();
    let broken = layer.events.clone();
    let _listening = tracing::subscriber::set_default(layer);
    let (client, faulty) = faulty_client();
    let guard = held(&client, "a").await;
    broken.store(true, Ordering::Relaxed);
    for fault in [Fault::Refused, Fault::Panic, Fault::RequestLost] {
        faulty.once(Operation::Extend, fault);
    }
    sleep(SECOND * 10).await;
    assert!(guard.is_held(), "{guard:?}");
    drop(guard);
    until_free(&client, "a").await;
}

/// Panics once when it is asked to sleep, after it was enabled.
#[derive(Debug, Default)]
struct FragileClock(AtomicBool);

#[async_trait]
impl Clock for FragileClock {
    fn now(&self) -> Moment {
        SystemClock.now()
    }

    async fn sleep_until(&self, deadline: Moment) {
        assert!(!self.0.swap(false, Ordering::Relaxed), "a panic of the test");
        SystemClock.sleep_until(deadline).await;
    }
}

/// C12: the renewer continues after a panic, with its requests in flight.
#[tokio::test(start_paused = true)]
async fn c12_a_panic_of_the_renewer_does_not_end_it() {
    let clock = Arc::new(FragileClock::default());
    let options = ClientOptions::new().clock(clock.clone());
    let faulty = Faulty::new(Arc::new(MemoryBackend::new()));
    let client = LockClient::with_options(faulty.clone(), options);
    let guard = held(&client, "a").await;
    faulty.once(Operation::Extend, Fault::Late(SECOND / 100));
    eventually("a renewal is under way", LIMIT, async || faulty.calls(Operation::Extend) > 0).await;
    clock.0.store(true, Ordering::Relaxed);
    sleep(SECOND * 10).await;
    assert!(!clock.0.load(Ordering::Relaxed), "nobody slept by it");
    assert!(guard.is_held(), "{guard:?}");
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// C12: a lock that nobody would renew is not acquired. Here the runtime of the client's tasks has ended.
#[test]
fn c12_a_runtime_that_has_ended_is_told() {
    let ended = runtime();
    let options = ClientOptions::new().runtime(ended.handle().clone());
    let client = LockClient::with_options(MemoryBackend::new(), options);
    drop(ended);
    let error = runtime().block_on(client.acquire("stock:42")).expect_err("nobody would renew it");
    assert!(matches!(error, LockError::RuntimeStopped { still_for: None, .. }), "{error:?}");
    for part in ["stock:42", "has ended", "`ClientOptions::runtime`"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

/// C12, C17: a wait that is shorter than half a request time-out is over before the runtime is known to stand still.
#[test]
fn c12_a_short_wait_gets_nothing_that_nobody_renews() {
    let (still, busy) = (runtime(), runtime());
    let client = LockClient::new(MemoryBackend::new());
    still.block_on(held_and_released(&client));
    let (wait, mut tries) = (SECOND / 5, 0);
    let told = async || {
        let began = Instant::now();
        // The runtime that stands still gives no lock back.
        tries += 1;
        let acquired = client.acquire(LockRequest::new(format!("a{tries}")).wait(wait)).await;
        let (ended, took) = (acquired.is_err(), began.elapsed());
        assert!(!ended || took < wait + 3 * SECOND, "{acquired:?} after {took:?}");
        ended
    };
    busy.block_on(eventually("it is told", LIMIT, told));
    still.block_on(held_and_released(&client));
}

async fn held_and_released(client: &LockClient) {
    held(client, "a").await.release().await.expect("held to the end");
}

/// C12: a lock that nobody would renew is not acquired. Here nobody drives the runtime of the client's tasks.
#[test]
fn c12_a_runtime_that_stands_still_is_told() {
    let (still, busy) = (runtime(), runtime());
    let client = LockClient::with_options(
        MemoryBackend::new(),
        ClientOptions::new().request_timeout(SECOND / 2),
    );
    let cycle = async || client.acquire("stock:42").await?.release().await;
    still.block_on(cycle()).expect("a free lock");
    let told = async || match cycle().await {
        Err(LockError::RuntimeStopped { still_for: Some(span), .. }) => span >= SECOND,
        other => {
            other.expect("a free lock");
            false
        }
    };
    busy.block_on(eventually("it is told", LIMIT, told));
    still.block_on(cycle()).expect("it is driven again");
    busy.block_on(cycle()).expect("it ran a short while ago");
}

/// C12, C48: a runtime that is late ends no endless wait. Only one that has ended does.
#[test]
fn c12_a_runtime_that_is_late_ends_no_endless_wait() {
    let (late, busy) = (runtime(), runtime());
    let options = ClientOptions::new().request_timeout(SECOND);
    let client = LockClient::with_options(MemoryBackend::new(), options);
    late.block_on(held_and_released(&client));
    thread::sleep(SECOND * 5 / 2);
    let later = thread::spawn(move || {
        thread::sleep(SECOND * 3 / 2);
        late.block_on(async { sleep(SECOND * 3).await });
    });
    let guard = busy.block_on(client.acquire("a")).expect("it is late, and has not ended");
    busy.block_on(guard.release()).expect("held to the end");
    later.join().expect("no panic");
}

/// C17: the wait for a late runtime is a part of the time of a try.
#[test]
fn c17_a_try_waits_for_a_late_runtime_within_its_limit() {
    let (late, busy) = (runtime(), runtime());
    let (limit, store) = (SECOND * 4, Faulty::new(Arc::new(MemoryBackend::new())));
    let options = ClientOptions::new().request_timeout(limit);
    let client = LockClient::with_options(store.clone(), options);
    late.block_on(held_and_released(&client));
    store.always(Operation::Acquire, Fault::Silence);
    for request in [LockRequest::new("a"), LockRequest::new("a").shared()] {
        thread::sleep(SECOND * 5 / 2);
        let took = thread::scope(|threads| {
            let later = threads.spawn(|| {
                thread::sleep(SECOND * 3 / 2);
                late.block_on(async { sleep(SECOND / 10).await });
            });
            let began = Instant::now();
            let refused = busy.block_on(client.try_acquire(request)).expect_err("no answer");
            let took = began.elapsed();
            assert!(refused.is_transient(), "{refused}");
            later.join().expect("no panic");
            took
        });
        assert!(took < limit + SECOND, "it took {took:?}");
    }
}

/// C19: a panic between the grant and its guard leaves no lock that is renewed for ever.
#[tokio::test(start_paused = true)]
async fn c19_a_panic_between_grant_and_guard_leaves_no_lock() {
    let layer = Broken::default();
    let broken = layer.exit.clone();
    let _listening = tracing::subscriber::set_default(layer);
    let store = MemoryBackend::new();
    let (locks, other) = (LockClient::new(store.clone()), LockClient::new(store));
    broken.store(true, Ordering::Relaxed);
    drop(AssertUnwindSafe(locks.try_acquire("a")).catch_unwind().await);
    assert!(!broken.load(Ordering::Relaxed), "it was not reached");
    sleep(SECOND * 300).await;
    let next = other.try_acquire("a").await.expect("an answer");
    assert!(next.is_some(), "it is renewed without a guard");
}

/// C42: a panic of a record takes no finished work along.
#[tokio::test(start_paused = true)]
async fn c42_a_panic_of_a_record_returns_the_value_of_the_work() {
    let (client, faulty) = faulty_client();
    faulty.always(Operation::Record, Fault::Panic);
    let run = client.once("a").occurrence("2026-11-29").run(async |_| 42);
    let outcome = AssertUnwindSafe(run).catch_unwind().await.expect("the work is lost");
    let finished = outcome.expect("an answer").ran().expect("a free lock");
    assert_eq!(finished.value, 42);
    assert!(matches!(finished.hold, Err(LockError::Unrecorded { .. })), "{:?}", finished.hold);
}
