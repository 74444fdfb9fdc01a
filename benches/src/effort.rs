//! How much is done of everything.

use std::time::Duration;

#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// How often each workload is gone through. Told is the median.
    pub(crate) rounds: usize,
    /// How long each contender works in a round.
    pub(crate) span: Duration,
    /// How long a hand-off goes on at least, for each client that takes turns. Where each has a few turns, one more or
    /// less at the ends is a tenth of them, and looks unfair.
    pub(crate) each: Duration,
    /// How many locks are taken after a pause, by each contender.
    pub(crate) after_a_pause: usize,
    /// How many locks a process holds whose CPU and memory are measured.
    pub(crate) held: usize,
    /// How many locks a client holds beside which it takes one more.
    pub(crate) beside: usize,
    /// How many cycles one name goes through to show that it does not age.
    pub(crate) cycles: usize,
    /// By how much fewer clients and tasks wait at once.
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
