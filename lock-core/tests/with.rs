//! C47: work under a lock by one call.

#![allow(clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use lock_core::{LockClient, LockError, LockRequest, LostReason, MemoryBackend};
use lock_testkit::{Fault, Faulty, Operation};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

/// C47: the work runs under the lock, on a task of its own if need be, and the lock is free afterwards.
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

/// C47: work that has ended keeps its value though the server is silent at the release.
#[tokio::test(start_paused = true)]
async fn c47_finished_work_is_not_turned_into_a_failure() {
    let faulty = Faulty::new(Arc::new(MemoryBackend::new()));
    let locks = LockClient::new(faulty.clone());
    faulty.always(Operation::Release, Fault::Silence);
    let finished = locks.with("stock", async |_| 42).await.expect("a free lock");
    assert_eq!(finished.into_value().expect("held to the end"), 42);
}

/// C13, C47: a loss during the work drops the work; a loss that the release finds is told beside the value.
#[tokio::test(start_paused = true)]
async fn c47_no_loss_is_unreported() {
    let locks = LockClient::new(MemoryBackend::new());
    let request = || LockRequest::new("stock").ttl(3 * SECOND);
    let dropped = locks.with(request(), async |_| {
        locks.evict("stock").await.expect("an answer");
        sleep(60 * SECOND).await;
    });
    let dropped = dropped.await;
    assert!(
        matches!(dropped, Err(LockError::Lost { reason: LostReason::Evicted, .. })),
        "{dropped:?}"
    );
    let finished = locks.with(request(), async |_| {
        locks.evict("stock").await.expect("an answer");
        "done"
    });
    let finished = finished.await.expect("the work ended before the loss was noticed");
    assert_eq!(finished.value, "done");
    assert!(matches!(finished.hold, Err(LockError::Lost { .. })), "{:?}", finished.hold);
}
