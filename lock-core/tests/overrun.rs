//! C13, C47: work that blocks its thread past the deadline ends after the loss, since nothing could drop it.

#![allow(clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use lock_core::testing::FakeClock;
use lock_core::{
    ClientOptions, Finished, LockClient, LockError, LockRequest, LostReason, MemoryBackend,
    MultiRequest, OnceOutcome,
};

const TTL: Duration = Duration::from_secs(30);

/// Returns a client, and the clock that it reads.
fn client() -> (LockClient, Arc<FakeClock>) {
    let clock = Arc::new(FakeClock::new());
    let options = ClientOptions::new().clock(clock.clone()).ttl(TTL);
    (LockClient::with_options(MemoryBackend::new(), options), clock)
}

fn assert_lost<T: std::fmt::Debug>(result: &Result<T, LockError>) {
    let is_lost = matches!(result, Err(LockError::Lost { reason: LostReason::Expired, .. }));
    assert!(is_lost, "the loss is to be told, and this was: {result:?}");
}

/// Asserts that the value is returned, and separately the loss.
fn assert_kept_and_lost(finished: Finished<i32>) {
    assert_eq!(finished.value, 42);
    assert_lost(&finished.hold);
}

#[tokio::test(start_paused = true)]
async fn c13_a_run_that_outlasts_its_deadline_in_one_step_is_a_loss() {
    let (locks, clock) = client();
    let overrun = async || {
        clock.advance(2 * TTL);
        42
    };
    let guard = locks.acquire("one").await.expect("a free lock");
    assert_lost(&guard.run(overrun()).await);
    let several = locks.acquire_all(MultiRequest::new(["two", "three"])).await;
    assert_lost(&several.expect("free locks").run(overrun()).await);
    let leadership = locks.election("four").label("me").campaign().await.expect("elected");
    assert_lost(&leadership.run(overrun()).await);
}

#[tokio::test(start_paused = true)]
async fn c47_work_that_outlasts_its_deadline_in_one_step_keeps_its_value() {
    let (locks, clock) = client();
    let overrun = async |_: &_| {
        clock.advance(2 * TTL);
        42
    };
    let finished = locks.with(LockRequest::new("one"), overrun).await;
    assert_kept_and_lost(finished.expect("the work ended"));
    for run in [locks.once("two"), locks.once("three").occurrence("x")] {
        let OnceOutcome::Ran(finished) = run.run(overrun).await.expect("the work ended") else {
            panic!("a free lock")
        };
        assert_kept_and_lost(finished);
    }
}
