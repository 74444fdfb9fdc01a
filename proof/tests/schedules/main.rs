//! Code whose threads share memory, under random schedules: the files themselves, with [`sync`] in place of the types
//! of the standard library, or with those of shuttle.
//!
//! A schedule in which each thread waits for another fails. `SCHEDULES` is the number of schedules of each test.

#![allow(clippy::unwrap_used)]

mod engine;
mod redis_socket;
#[path = "../../../lock-redis/src/wire/socket.rs"]
mod socket;
mod sync;

use std::env;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, MaxSteps, Runner};

/// Explores schedules of `threads`, usually so many: half of them at random, half with few changes of thread (PCT).
fn explore(usual: usize, threads: impl Fn() + Clone + Send + Sync + 'static) {
    let count = env::var("SCHEDULES").map_or(usual, |count| count.parse().unwrap());
    let mut config = Config::new();
    // The futures of a client are larger than the stack that a thread has otherwise.
    (config.stack_size, config.silence_warnings) = (1 << 20, true);
    config.max_steps = MaxSteps::FailAfter(100_000);
    Runner::new(RandomScheduler::new(count / 2), config.clone()).run(threads.clone());
    Runner::new(PctScheduler::new(3, count / 2), config).run(threads);
}
