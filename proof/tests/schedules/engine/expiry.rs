//! Holds expire while they are renewed, given back and waited for.

use std::sync::{Arc, Mutex};

use lock_core_shuttled::{LockClient, LockGuard, LockRequest, LostSignal, Ttl, Wait};
use shuttle::future::{JoinHandle, spawn, yield_now};
use shuttle::rand::{Rng, thread_rng};
use shuttle_tokio::time::{clear_triggers, trigger_timeouts};

use super::Stage;

/// Number of tasks, on the two clients in turn.
const TASKS: usize = 3;

/// Most holds of a task.
const HOLDS: usize = 3;

/// All that tasks share.
#[derive(Default)]
struct World {
    /// The signals of all holds so far.
    holds: Mutex<Vec<LostSignal>>,
}

pub(super) async fn play(stage: &Stage) {
    let world = Arc::new(World::default());
    let tasks = (0..TASKS).map(|number| {
        let (world, locks) = (world.clone(), stage.clients[number % 2].clone());
        spawn(world.live(locks))
    });
    let tasks: Vec<_> = tasks.collect();
    for _ in 0..thread_rng().gen_range(1..8) {
        stage.clock.advance(Ttl::default().as_duration() * thread_rng().gen_range(1..4) / 4);
        elapse().await;
    }
    while !tasks.iter().all(JoinHandle::is_finished) {
        elapse().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// Lets all time-outs elapse that others wait for: nobody is told of an expiry.
pub(super) async fn elapse() {
    trigger_timeouts(|_| true);
    clear_triggers();
    yield_now().await;
}

impl World {
    async fn live(self: Arc<Self>, locks: LockClient) {
        for _ in 0..HOLDS {
            yield_now().await;
            // A hold may be over before it is known.
            let wait = if thread_rng().r#gen() { Wait::Forever } else { Wait::Never };
            let request = LockRequest::new("a").wait(wait);
            let Ok(guard) = locks.acquire(request).await else { continue };
            self.believe(&guard);
            yield_now().await;
            match thread_rng().gen_range(0..3) {
                0 => drop(guard),
                1 => drop(guard.extend(Ttl::default().as_duration()).await),
                _ => drop(guard.release().await),
            }
        }
    }

    /// S3: at most one hold is believed in. The signals are read one after the other; but one that has not ended
    /// later had not ended before.
    fn believe(&self, guard: &LockGuard) {
        let signal = guard.lost_signal();
        let mut holds = self.holds.lock().unwrap();
        holds.push(signal);
        let known = holds.clone();
        drop(holds);
        let believed = known.iter().filter(|signal| !signal.is_lost()).count();
        assert!(believed <= 1, "S3: {believed} holds are believed in");
    }
}
