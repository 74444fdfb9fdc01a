//! The grace of a command that was asked to end: the time until its group is killed.

use std::future::pending;
use std::mem::replace;
use std::pin::Pin;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Sleep, sleep};

/// The grace of one command.
pub(super) struct Grace {
    span: Duration,
    /// The end of the grace; `None` before the command is asked to end.
    end: Option<Pin<Box<Sleep>>>,
    is_interrupted: bool,
}

impl Grace {
    pub(super) fn new(span: Duration) -> Self {
        Self { span, end: None, is_interrupted: false }
    }

    /// Begins the grace, unless it has begun.
    pub(super) fn begin(&mut self) {
        let span = self.span;
        self.end.get_or_insert_with(|| Box::pin(sleep(span)));
    }

    /// Notes a signal for the command. SIGTERM begins the grace: it asks every program to end, while the others may
    /// have another meaning, such as SIGHUP for a server or SIGINT for an interpreter. Returns true if the signal ends
    /// the grace at once, as the second SIGINT or SIGTERM within it does.
    pub(super) fn is_ended_by(&mut self, signal: Signal) -> bool {
        if signal == Signal::TERM {
            self.begin();
        }
        let interrupts = self.end.is_some() && matches!(signal, Signal::INT | Signal::TERM);
        interrupts && replace(&mut self.is_interrupted, true)
    }

    /// Waits for the end of the grace; for ever if the grace has not begun. Cancel safe.
    pub(super) async fn over(&mut self) {
        match &mut self.end {
            Some(end) => end.as_mut().await,
            None => pending().await,
        }
    }
}
