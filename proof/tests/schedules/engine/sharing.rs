//! Two tasks share a hold beside others that want it.

use std::sync::Arc;

use lock_core_shuttled::{LockClient, LockRequest, Reentrance};
use shuttle::future::{spawn, yield_now};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Barrier;

use super::Stage;

pub(super) async fn play(stage: &Stage) {
    let (me, both) = (Reentrance::new(), Arc::new(Barrier::new(2)));
    let [locks, other] = &stage.clients;
    let tasks = [
        spawn(share(locks.clone(), me.clone(), both.clone())),
        spawn(share(locks.clone(), me, both)),
        spawn(hold(other.clone())),
    ];
    for task in tasks {
        task.await.unwrap();
    }
}

/// C43: gives its part back only after the other task has one, so it waits for ever if that task does not share.
async fn share(locks: LockClient, me: Reentrance, both: Arc<Barrier>) {
    for _ in 0..3 {
        for _ in 0..thread_rng().gen_range(0..50) {
            yield_now().await;
        }
        let guard = locks.acquire(LockRequest::new("a").reentrant(&me)).await.unwrap();
        both.wait();
        assert!(guard.is_held(), "C43: ended by another part");
        both.wait();
    }
}

async fn hold(locks: LockClient) {
    let guard = locks.acquire("a").await.unwrap();
    yield_now().await;
    guard.release().await.unwrap();
}
