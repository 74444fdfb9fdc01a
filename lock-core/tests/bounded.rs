//! Bounds of holds (C13): they stay with the hold, whoever renews it.

#![allow(clippy::expect_used, clippy::panic)]

use std::time::Duration;

use lock_core::{
    ClientOptions, Drift, Lease, LockClient, LockError, LockGuard, LockRequest, LostReason,
    MemoryBackend, Reentrance,
};
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(10);
const BOUND: Duration = Duration::from_secs(20);

fn request() -> LockRequest {
    LockRequest::new("a").ttl(TTL).max_hold(BOUND)
}

/// Returns the lease as its next holder gets it: in the process, or by its text.
fn handed_on(lease: Lease, is_text: bool) -> Lease {
    if is_text { Lease::import(&lease.export()).expect("its own text") } else { lease }
}

async fn assert_ends_in_time(guard: LockGuard, began: Instant) {
    let lost = timeout(TTL * 60, guard.lost()).await;
    assert_eq!(lost.expect("it is renewed for ever"), LostReason::MaxHold);
    let lasted = began.elapsed();
    assert!(lasted >= BOUND && lasted <= BOUND + TTL, "it lasted {lasted:?}");
}

/// C13: the bound travels with the lease, in the process and in the text for another.
#[tokio::test(start_paused = true)]
async fn c13_a_bound_stays_when_its_lease_is_attached() {
    for is_text in [false, true] {
        let locks = LockClient::new(MemoryBackend::new());
        let began = Instant::now();
        let mut guard = locks.acquire(request()).await.expect("a free lock");
        for _ in 0..3 {
            sleep(TTL / 2).await;
            let lease = handed_on(guard.detach().expect("it is held"), is_text);
            guard = locks.attach(lease).await.expect("it is held");
        }
        assert_ends_in_time(guard, began).await;
    }
}

/// C13: after its bound a hold is prolonged by no attachment, also of a lease that was exported.
#[tokio::test(start_paused = true)]
async fn c13_an_attachment_prolongs_no_hold_past_its_bound() {
    for is_text in [false, true] {
        let locks = LockClient::new(MemoryBackend::new());
        let began = Instant::now();
        let mut guard = locks.acquire(request()).await.expect("a free lock");
        let refused = loop {
            sleep(TTL / 4).await;
            let lease = guard.detach().map(|lease| handed_on(lease, is_text));
            match async { locks.attach(lease?).await }.await {
                Ok(attached) => guard = attached,
                Err(error) => break error,
            }
            assert!(began.elapsed() <= BOUND + TTL * 2, "it is attached for ever");
        };
        assert!(refused.is_lost(), "{refused}");
        assert!(began.elapsed() <= BOUND + TTL + TTL / 4, "{:?}", began.elapsed());
    }
}

/// C41: `at_most` is such a bound.
#[tokio::test(start_paused = true)]
async fn c41_the_bound_of_a_run_stays_when_its_lease_is_attached() {
    let locks = LockClient::new(MemoryBackend::new());
    let began = Instant::now();
    let run = locks.once("a").ttl(TTL).at_most(BOUND).begin().await.expect("an answer");
    let guard = run.ran().expect("a free lock");
    sleep(TTL / 2).await;
    let lease = guard.detach().expect("it is held");
    assert_ends_in_time(locks.attach(lease).await.expect("it is held"), began).await;
}

/// C13, C43: the bound is that of the request that acquired the hold, whatever the TTL of a nested one is.
#[tokio::test(start_paused = true)]
async fn c13_a_nested_request_with_a_longer_ttl_keeps_the_bound() {
    for after in [TTL / 2, BOUND + TTL / 4] {
        let locks = LockClient::new(MemoryBackend::new());
        let me = Reentrance::new();
        let began = Instant::now();
        let outer = locks.acquire(request().reentrant(&me)).await.expect("a free lock");
        sleep(after).await;
        let nested = LockRequest::new("a").ttl(TTL * 60).reentrant(&me);
        let nested = locks.acquire(nested).await.expect("its own lock");
        assert_eq!(nested.token(), outer.token());
        assert_ends_in_time(outer, began).await;
        assert!(!nested.is_held());
    }
}

/// C5: a client whose margin leaves nothing of a TTL refuses its lease, and says why.
#[tokio::test(start_paused = true)]
async fn c05_a_lease_within_the_margin_is_refused() {
    let store = MemoryBackend::new();
    let lease = LockClient::new(store.clone()).acquire(LockRequest::new("a").ttl(TTL)).await;
    let lease = lease.expect("a free lock").detach().expect("it is held");
    let options = ClientOptions::new().drift(Drift::new(0.0, TTL));
    let refused = LockClient::with_options(store, options).attach(lease).await;
    let refused = refused.expect_err("nothing is left");
    assert!(matches!(refused, LockError::Invalid(_)), "{refused}");
}
