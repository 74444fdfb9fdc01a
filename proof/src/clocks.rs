//! The clocks of a world: machines at their own rates, and the server with its steps, all in virtual time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::backend::async_trait;
use lock_core::{Clock, Moment, SystemClock};
use tokio::time::{Instant, sleep};

/// No step takes a clock back before its start.
const HEAD_START: Duration = Duration::from_secs(3600);

/// Initial time of every wall clock, after 1970.
const EPOCH: Duration = Duration::from_secs(1_700_000_000);

/// The clock of one machine.
#[derive(Debug)]
pub(crate) struct MachineClock {
    zero: Moment,
    started: Instant,
    /// Its seconds per second of virtual time.
    rate: f64,
    /// Steps: the time of each, and its size in ms.
    steps: Vec<(Duration, i64)>,
}

impl MachineClock {
    pub(crate) fn new(rate: f64, steps: Vec<(Duration, i64)>) -> Self {
        Self { zero: SystemClock.now(), started: Instant::now(), rate, steps }
    }

    /// Returns the span of virtual time in which this clock advances by `shown`.
    pub(crate) fn lasting(&self, shown: Duration) -> Duration {
        shown.div_f64(self.rate)
    }

    /// Returns the time since the start, by this clock.
    fn shown(&self) -> Duration {
        let elapsed = self.started.elapsed();
        let past = self.steps.iter().filter(|(at, _)| *at <= elapsed);
        let stepped: i64 = past.map(|(_, millis)| millis).sum();
        let step = Duration::from_millis(stepped.unsigned_abs());
        let even = HEAD_START + elapsed.mul_f64(self.rate);
        if stepped < 0 { even.saturating_sub(step) } else { even + step }
    }
}

#[async_trait]
impl Clock for MachineClock {
    fn now(&self) -> Moment {
        self.zero.after(self.shown())
    }

    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + EPOCH + self.shown()
    }

    async fn sleep_until(&self, deadline: Moment) {
        loop {
            match self.now().until(deadline) {
                Duration::ZERO => return,
                left => sleep(left.div_f64(self.rate)).await,
            }
        }
    }
}
