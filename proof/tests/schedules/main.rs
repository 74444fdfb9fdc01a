//! Code whose threads share memory, under random schedules: the files themselves, with [`sync`] in place of the types
//! of the standard library.
//!
//! A schedule in which each thread waits for another fails. `SCHEDULES` is the number of schedules of each test.

#![allow(clippy::unwrap_used)]

mod redis_socket;
#[path = "../../../lock-redis/src/wire/socket.rs"]
mod socket;
mod sync;

use std::env;

/// Explores schedules of `threads`: half of them at random, half with few changes of thread (PCT).
fn explore(threads: impl Fn() + Clone + Send + Sync + 'static) {
    let count = env::var("SCHEDULES").map_or(2_000, |count| count.parse().unwrap());
    shuttle::check_random(threads.clone(), count / 2);
    shuttle::check_pct(threads, count / 2, 3);
}
