//! Tasks wait for the end of a hold.

use lock_core_shuttled::{LockError, Ttl};
use shuttle::future::{spawn, yield_now};
use shuttle::rand::{Rng, thread_rng};

use super::Stage;

/// C8, C9: each waits for ever if it misses the end, since no time-out elapses.
pub(super) async fn play(stage: &Stage) {
    let guard = stage.clients[0].acquire("a").await.unwrap();
    let waiting = [guard.lost_signal(), guard.lost_signal()];
    let waiting = waiting.map(|signal| spawn(async move { signal.wait().await }));
    yield_now().await;
    match thread_rng().gen_range(0..3) {
        0 => drop(guard),
        1 => guard.release().await.unwrap(),
        _ => {
            stage.clients[1].admin().evict("a").await.unwrap();
            let extended = guard.extend(Ttl::default().as_duration()).await;
            assert!(matches!(extended, Err(LockError::Lost { .. })), "{extended:?}");
        }
    }
    for each in waiting {
        each.await.unwrap();
    }
}
