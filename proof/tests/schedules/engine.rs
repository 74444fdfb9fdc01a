//! The engine of the client, with the mutexes, atomics and tasks of shuttle: one story a module.
//!
//! Time-outs never elapse there, and delays elapse at once. So a missed wake-up is a deadlock.

mod expiry;
mod fence;
mod hand_over;
mod loss;
mod passing;
mod renewal;
mod sharing;

use std::sync::Arc;

use lock_core_shuttled::testing::{FakeClock, seed_this_thread};
use lock_core_shuttled::{ClientOptions, LockClient, MemoryBackend};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};

use crate::explore;

/// Number of schedules of each story.
const SCHEDULES: usize = 400;

/// A store, and two clients with the same clock.
struct Stage {
    clock: Arc<FakeClock>,
    clients: [LockClient; 2],
}

impl Stage {
    fn new() -> Self {
        let clock = Arc::new(FakeClock::new());
        let store = MemoryBackend::with_clock(clock.clone());
        let options = || ClientOptions::new().clock(clock.clone());
        let clients = [(); 2].map(|()| LockClient::with_options(store.clone(), options()));
        Self { clock, clients }
    }

    /// R1: nothing is left once both clients are shut down.
    async fn close(self) {
        for client in &self.clients {
            client.shutdown().await;
        }
        for name in ["a", "b"] {
            let state = self.clients[0].admin().inspect(name).await.unwrap();
            let is_free = state.holders.is_empty() && state.waiters == Some(0);
            assert!(is_free, "R1: left over: {state:?}");
        }
    }
}

/// Explores the schedules of a story.
fn tell(story: impl AsyncFn(&Stage) + Clone + Send + Sync + 'static) {
    explore(SCHEDULES, move || {
        seed_this_thread(thread_rng().r#gen());
        block_on(async {
            let stage = Stage::new();
            story(&stage).await;
            stage.close().await;
        });
    });
}

#[test]
fn p2_a_hand_over_keeps_the_contract() {
    tell(hand_over::play);
}

#[test]
fn c43_two_tasks_find_the_hold_of_each_other() {
    tell(sharing::play);
}

#[test]
fn c26_tasks_of_a_client_pass_a_lock_on() {
    tell(passing::play);
}

#[test]
fn s3_at_most_one_hold_is_believed_in() {
    tell(expiry::play);
}

#[test]
fn c10_an_expired_hold_does_not_come_back() {
    tell(renewal::play);
}

#[test]
fn c08_nobody_misses_the_end_of_a_hold() {
    tell(loss::play);
}

#[test]
fn c24_a_fence_never_goes_back() {
    explore(SCHEDULES, || block_on(fence::play()));
}
