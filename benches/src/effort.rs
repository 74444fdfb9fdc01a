//! The amounts of all workloads.

use std::time::Duration;

#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// Number of rounds of each workload. The report shows the median.
    pub(crate) rounds: usize,
    /// Time of each contender in a round.
    pub(crate) span: Duration,
    /// Least time of a hand-off, for each client that takes turns. If each has only a few turns, one more or less
    /// at the ends is a tenth of them, and looks unfair.
    pub(crate) each: Duration,
    /// Number of locks that each contender acquires after a pause.
    pub(crate) after_a_pause: usize,
    /// Number of locks of a process whose CPU and memory are measured.
    pub(crate) held: usize,
    /// Number of locks that a client holds while it acquires one more.
    pub(crate) beside: usize,
    /// Number of cycles of one name, to show that it does not age.
    pub(crate) cycles: usize,
    /// Divisor of the number of waiting clients and tasks.
    pub(crate) fewer_waiters: usize,
}

impl Effort {
    pub(crate) const FULL: Self = Self {
        rounds: 3,
        span: Duration::from_secs(2),
        each: Duration::from_millis(60),
        after_a_pause: 5,
        held: 10_000,
        beside: 100_000,
        cycles: 100_000,
        fewer_waiters: 1,
    };

    pub(crate) const QUICK: Self = Self {
        rounds: 1,
        span: Duration::from_millis(300),
        each: Duration::from_millis(8),
        after_a_pause: 2,
        held: 1_000,
        beside: 10_000,
        cycles: 2_000,
        fewer_waiters: 5,
    };
}
