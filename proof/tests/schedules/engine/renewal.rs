//! A hold is renewed while its deadline passes.

use lock_core_shuttled::{Clock, Ttl};
use shuttle::future::{spawn, yield_now};

use super::Stage;

pub(super) async fn play(stage: &Stage) {
    let guard = stage.clients[0].acquire("a").await.unwrap();
    let clock = stage.clock.clone();
    let holder = spawn(async move {
        for _ in 0..6 {
            let deadline = guard.deadline();
            yield_now().await;
            // C10: a deadline never moves back, so it was the same while the clock was read.
            let is_over = clock.now().has_reached(deadline) && guard.deadline() == deadline;
            yield_now().await;
            assert!(!is_over || !guard.is_held(), "C10: believed in after its deadline");
        }
    });
    for _ in 0..3 {
        stage.clock.advance(Ttl::default().as_duration() / 2);
        yield_now().await;
    }
    holder.await.unwrap();
}
