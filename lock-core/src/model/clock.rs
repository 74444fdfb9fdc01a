//! The holder's clock: it never steps back, and it counts the time of a suspend.

use std::fmt;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::Instant;

use super::suspend::{Resumes, slept};
use crate::sync::{Mutex, locked};

/// A point on the holder's own clock.
///
/// The clock counts the time of a suspend: after a long one, a holder must not believe in its hold (`Instant` alone stops in
/// suspend on Linux).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    awake: Instant,
    /// The time in suspend before this moment.
    slept: Duration,
}

impl Moment {
    /// Returns the time from `earlier` to this moment; zero if `earlier` is not before it.
    pub fn since(&self, earlier: Moment) -> Duration {
        // C6: suspend counts.
        self.awake.saturating_duration_since(earlier.awake) + self.slept_since(earlier)
    }

    /// Returns the time left until `deadline`; zero once it has come.
    pub fn until(&self, deadline: Moment) -> Duration {
        let awake = deadline.awake.saturating_duration_since(self.awake);
        awake.saturating_sub(self.slept_since(deadline))
    }

    /// Returns the time that the machine was suspended since `earlier`.
    pub(crate) fn slept_since(&self, earlier: Moment) -> Duration {
        self.slept.saturating_sub(earlier.slept)
    }

    /// Returns the moment on the clock that stops in suspend.
    pub(crate) fn awake(&self) -> Instant {
        self.awake
    }

    /// Returns true once `deadline` has come.
    pub fn has_reached(&self, deadline: Moment) -> bool {
        self.until(deadline).is_zero()
    }

    /// The moment `span` later.
    #[must_use]
    pub fn after(&self, span: Duration) -> Moment {
        // A century counts as for ever, and does not overflow.
        let span = span.min(Duration::from_secs(100 * 365 * 24 * 3600));
        Moment { awake: self.awake + span, ..*self }
    }
}

/// The source of a holder's time.
///
/// Use [`SystemClock`]; [`FakeClock`] is for tests.
#[async_trait]
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Reads the clock.
    fn now(&self) -> Moment;

    /// Reads the time of day. The memory backend makes tokens from it and shows it. It may step.
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    /// Returns once [`now`](Clock::now) has reached `deadline`.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    async fn sleep_until(&self, deadline: Moment);
}

/// The clock of the machine: on Linux the larger of `CLOCK_MONOTONIC`'s and `CLOCK_BOOTTIME`'s
/// elapsed time; elsewhere the monotonic clock.
///
/// Under Tokio's paused time it follows that time alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment { awake: Instant::now(), slept: slept() }
    }

    async fn sleep_until(&self, deadline: Moment) {
        // Listens before it reads the clock, so that no resume is missed.
        let mut resumes = Resumes::listen();
        loop {
            match self.now().until(deadline) {
                Duration::ZERO => return,
                left => resumes.sleep(left).await,
            }
        }
    }
}

/// A clock that moves only when a test moves it.
///
/// ```
/// use std::time::Duration;
/// use lock_core::{Clock, testing::FakeClock};
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
    /// Returns a clock that stands still.
    pub fn new() -> Self {
        Self { now: Mutex::new(SystemClock.now()), moved: watch::channel(()).0 }
    }

    /// Lets `span` go by with the machine awake.
    pub fn advance(&self, span: Duration) {
        self.set(|now| now.after(span));
    }

    /// Lets `span` go by with the machine asleep: only the clock that counts suspend moves.
    pub fn suspend(&self, span: Duration) {
        self.set(|now| Moment { slept: now.slept + span, ..now });
    }

    fn set(&self, step: impl FnOnce(Moment) -> Moment) {
        let mut now = locked(&self.now);
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
        *locked(&self.now)
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
    fn c06_elapsed_time_has_that_of_a_suspend() {
        let clock = FakeClock::new();
        let start = clock.now();
        clock.advance(MINUTE);
        assert_eq!(clock.now().since(start), MINUTE);
        clock.suspend(MINUTE);
        assert_eq!(clock.now().since(start), 2 * MINUTE);
        assert_eq!(start.since(clock.now()), Duration::ZERO);
    }

    /// A slow machine takes no time from a hold in a test with paused time.
    #[tokio::test(start_paused = true)]
    async fn c06_paused_time_is_the_only_time() {
        let (start, real) = (SystemClock.now(), std::time::Instant::now());
        while real.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        assert_eq!(SystemClock.now().since(start), Duration::ZERO);
        tokio::time::advance(MINUTE).await;
        assert_eq!(SystemClock.now().since(start), MINUTE);
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
