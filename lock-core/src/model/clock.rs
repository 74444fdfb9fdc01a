//! The holder's clock: it never steps back, and it counts the time the machine was asleep.

use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::Instant;

/// A point on the holder's own clock.
///
/// It is read on two clocks at once: one that runs while the machine runs, and one that also counts
/// the time it was suspended. The time between two moments is the **larger** of the two, because a
/// holder that overslept must not believe in its hold (`Instant` alone stops in suspend on Linux).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    awake: Instant,
    boot: Duration,
}

impl Moment {
    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(&self, earlier: Moment) -> Duration {
        let awake = self.awake.saturating_duration_since(earlier.awake);
        // C6: the larger of both, which counts suspend.
        awake.max(self.boot.saturating_sub(earlier.boot))
    }

    /// How long is left until `deadline`; zero once either clock has reached it.
    pub fn until(&self, deadline: Moment) -> Duration {
        let awake = deadline.awake.saturating_duration_since(self.awake);
        awake.min(deadline.boot.saturating_sub(self.boot))
    }

    /// How long the machine slept since `earlier`: what only the clock that counts suspend has counted.
    pub(crate) fn slept_since(&self, earlier: Moment) -> Duration {
        let awake = self.awake.saturating_duration_since(earlier.awake);
        self.boot.saturating_sub(earlier.boot).saturating_sub(awake)
    }

    /// The moment on the clock that runs while the machine runs.
    pub(crate) fn awake(&self) -> Instant {
        self.awake
    }

    /// Whether `deadline` has come.
    pub fn has_reached(&self, deadline: Moment) -> bool {
        self.until(deadline).is_zero()
    }

    /// The moment `span` later.
    #[must_use]
    pub fn after(&self, span: Duration) -> Moment {
        // A century stands for ever, and does not overflow.
        let span = span.min(Duration::from_secs(100 * 365 * 24 * 3600));
        Moment { awake: self.awake + span, boot: self.boot + span }
    }
}

/// Where a holder reads the time.
///
/// [`SystemClock`] is the one to use; [`FakeClock`] is for tests.
#[async_trait]
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Reads the clock.
    fn now(&self) -> Moment;

    /// Returns once [`now`](Clock::now) has reached `deadline`.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    async fn sleep_until(&self, deadline: Moment);
}

/// The clock of the machine: on Linux the larger of `CLOCK_MONOTONIC`'s and `CLOCK_BOOTTIME`'s
/// elapsed time; elsewhere the monotonic clock.
///
/// Under Tokio's paused time it follows that time.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Timers stop in suspend as `CLOCK_MONOTONIC` does, so a sleeper looks at the clock this often and
/// notices a resume.
const SUSPEND_CHECK: Duration = Duration::from_millis(50);

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment { awake: Instant::now(), boot: boot_time() }
    }

    async fn sleep_until(&self, deadline: Moment) {
        loop {
            match self.now().until(deadline) {
                Duration::ZERO => return,
                left => tokio::time::sleep(left.min(SUSPEND_CHECK)).await,
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(not(target_os = "linux"))]
fn boot_time() -> Duration {
    Duration::ZERO
}

/// A clock that moves when a test says so.
///
/// ```
/// use std::time::Duration;
/// use lock_core::{Clock, FakeClock};
///
/// let clock = FakeClock::new();
/// let start = clock.now();
/// clock.suspend(Duration::from_secs(60));
/// assert_eq!(clock.now().since(start), Duration::from_secs(60));
/// ```
#[derive(Debug)]
pub struct FakeClock {
    now: Mutex<Moment>,
    moved: watch::Sender<()>,
}

impl FakeClock {
    /// A clock that stands still.
    pub fn new() -> Self {
        Self { now: Mutex::new(SystemClock.now()), moved: watch::Sender::new(()) }
    }

    /// Lets `span` go by with the machine awake.
    pub fn advance(&self, span: Duration) {
        self.set(|now| now.after(span));
    }

    /// Lets `span` go by with the machine asleep: only the clock that counts suspend moves.
    pub fn suspend(&self, span: Duration) {
        self.set(|now| Moment { boot: now.boot + span, ..now });
    }

    fn set(&self, step: impl FnOnce(Moment) -> Moment) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now = step(*now);
        drop(now);
        self.moved.send_replace(());
    }
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for FakeClock {
    fn now(&self) -> Moment {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn sleep_until(&self, deadline: Moment) {
        let mut moved = self.moved.subscribe();
        while !self.now().has_reached(deadline) {
            if moved.changed().await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn c06_the_clock_counts_suspend() {
        let clock = FakeClock::new();
        let deadline = clock.now().after(MINUTE);
        clock.suspend(MINUTE / 2);
        assert_eq!(clock.now().until(deadline), MINUTE / 2);
        clock.suspend(MINUTE / 2);
        assert!(clock.now().has_reached(deadline));
    }

    #[test]
    fn c06_elapsed_time_is_the_larger_of_both_clocks() {
        let start = FakeClock::new().now();
        let awake_ahead = Moment { awake: start.awake + MINUTE, ..start };
        let boot_ahead = Moment { boot: start.boot + MINUTE, ..start };
        assert_eq!(awake_ahead.since(start), MINUTE);
        assert_eq!(boot_ahead.since(start), MINUTE);
        assert_eq!(start.since(boot_ahead), Duration::ZERO);
    }

    #[test]
    fn a_moment_for_ever_away_is_one() {
        let now = SystemClock.now();
        assert!(now.until(now.after(Duration::MAX)) > 1000 * MINUTE);
    }

    #[tokio::test]
    async fn a_fake_sleeper_wakes_when_its_moment_comes() {
        let clock = std::sync::Arc::new(FakeClock::new());
        let deadline = clock.now().after(MINUTE);
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_until(deadline).await }
        });
        clock.advance(MINUTE);
        sleeper.await.expect("woken");
    }
}
