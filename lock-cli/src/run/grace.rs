//! The grace of a command that was asked to end: the time until its group is killed.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, Sleep, sleep};

/// Signals that come within this time of each other are one: `timeout` signals its child, and then its whole group.
const ONE_SIGNAL: Duration = Duration::from_millis(250);

/// The grace of one command.
pub(super) struct Grace {
    span: Duration,
    /// The end of the grace; `None` before the command is asked to end.
    end: Option<Pin<Box<Sleep>>>,
    interrupted_at: Option<Instant>,
}

impl Grace {
    pub(super) fn new(span: Duration) -> Self {
        Self { span, end: None, interrupted_at: None }
    }

    /// Begins the grace, unless it has begun.
    pub(super) fn begin(&mut self) {
        let span = self.span;
        self.end.get_or_insert_with(|| Box::pin(sleep(span)));
    }

    /// Notes a signal for the command. SIGTERM begins the grace: it asks every program to end, while the others may
    /// have another meaning, such as SIGHUP for a server or SIGINT for an interpreter. Returns true if the signal ends
    /// the grace at once, as the second SIGINT or SIGTERM within it does, 250 ms or more after the first.
    pub(super) fn is_ended_by(&mut self, signal: Signal) -> bool {
        if signal == Signal::TERM {
            self.begin();
        }
        let interrupts = self.end.is_some() && matches!(signal, Signal::INT | Signal::TERM);
        interrupts && self.interrupted_at.get_or_insert_with(Instant::now).elapsed() >= ONE_SIGNAL
    }

    /// Waits for the end of the grace; for ever if the grace has not begun. Cancel safe.
    pub(super) async fn over(&mut self) {
        match &mut self.end {
            Some(end) => end.as_mut().await,
            None => pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn c08_a_signal_that_comes_twice_at_once_ends_no_grace() {
        let mut grace = Grace::new(Duration::from_secs(10));
        assert_eq!([(); 2].map(|()| grace.is_ended_by(Signal::TERM)), [false; 2]);
        sleep(ONE_SIGNAL).await;
        assert!(grace.is_ended_by(Signal::TERM));
    }
}
