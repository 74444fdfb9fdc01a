//! Tasks of one client pass a lock on.

use std::sync::Arc;

use lock_core_shuttled::LockClient;
use shuttle::future::{spawn, yield_now};

use super::Stage;
use super::hand_over::Observed;

pub(super) async fn play(stage: &Stage) {
    let seen = Arc::new(Observed::default());
    let tasks = [(); 3].map(|()| spawn(rounds(stage.clients[0].clone(), seen.clone())));
    for task in tasks {
        task.await.unwrap();
    }
}

async fn rounds(locks: LockClient, seen: Arc<Observed>) {
    for _ in 0..3 {
        let guard = locks.acquire("a").await.unwrap();
        seen.enter(&guard);
        yield_now().await;
        seen.leave(&guard);
        guard.release().await.unwrap();
    }
}
