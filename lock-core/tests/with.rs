//! C47: work under a lock in one call.

#![allow(clippy::expect_used, clippy::panic)]

use std::time::Duration;

use lock_core::{
    LockClient, LockError, LockGuard, LockName, LockRequest, LostReason, MemoryBackend,
};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

/// C47: the work runs under the lock, on its own task if necessary, and the lock is free afterwards.
#[tokio::test]
async fn c47_work_runs_under_the_lock() {
    let locks = LockClient::new(MemoryBackend::new());
    let worker = locks.clone();
    let working = tokio::spawn(async move {
        let mut stock = vec![1, 2, 3];
        let finished = worker.with("stock", async |held| {
            assert!(
                held.is_held() && worker.try_acquire("stock").await.expect("an answer").is_none()
            );
            sleep(Duration::from_millis(1)).await;
            stock.pop()
        });
        let sold = finished.await.expect("a free lock");
        (sold.into_value().expect("held to the end"), stock.len())
    });
    assert_eq!(working.await.expect("no panic"), (Some(3), 2));
    assert!(locks.try_acquire("stock").await.expect("an answer").is_some());
}

/// C13, C47: a loss during the work drops the work; a loss that the release finds is returned beside the value.
#[tokio::test(start_paused = true)]
async fn c47_no_loss_is_unreported() {
    let locks = LockClient::new(MemoryBackend::new());
    let request = || LockRequest::new("stock").ttl(3 * SECOND);
    let dropped = locks.with(request(), async |_| {
        locks.admin().evict("stock").await.expect("an answer");
        sleep(60 * SECOND).await;
    });
    let dropped = dropped.await;
    assert!(
        matches!(dropped, Err(LockError::Lost { reason: LostReason::Evicted, .. })),
        "{dropped:?}"
    );
    let finished = locks.with(request(), async |_| {
        locks.admin().evict("stock").await.expect("an answer");
        "done"
    });
    let finished = finished.await.expect("the work ended before the loss was noticed");
    assert_eq!(finished.value, "done");
    assert!(matches!(finished.hold, Err(LockError::Lost { .. })), "{:?}", finished.hold);
}

/// C47: with a request that does not wait, work under a held lock does not begin.
#[tokio::test]
async fn c47_work_that_does_not_wait_does_not_begin_under_a_busy_lock() {
    let locks = LockClient::new(MemoryBackend::new());
    let held = locks.acquire("a").await.expect("a free lock");
    let tried = locks.try_with("a", async |_| panic!("another holds the lock")).await;
    assert!(tried.expect("an answer").is_none());
    held.release().await.expect("held to the end");
    let done = locks.try_with("a", async |_| 42).await.expect("an answer").expect("a free lock");
    assert_eq!(done.into_value().expect("held to the end"), 42);
}

/// C47: the error of failed work comes before the error of a loss, and a success hides no loss.
#[tokio::test]
async fn c47_fallible_work_has_one_result() {
    let locks = LockClient::new(MemoryBackend::new());
    let closed = || LockError::Closed { name: LockName::new("work").expect("a name") };
    let evicted = async |result: Result<u8, LockError>| {
        let work = async |_: &LockGuard| {
            locks.admin().evict("a").await.expect("an answer");
            result
        };
        locks.with("a", work).await.expect("the work ended").into_result()
    };
    assert!(matches!(evicted(Ok(1)).await, Err(LockError::Lost { .. })));
    assert!(matches!(evicted(Err(closed())).await, Err(LockError::Closed { .. })));
    let kept = locks.with("a", async |_| Ok::<_, LockError>(7)).await.expect("a free lock");
    assert_eq!(kept.into_result().expect("held to the end"), 7);
}
