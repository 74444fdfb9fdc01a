//! Outages, as the holds of a client see them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::telemetry::Telemetry;
use crate::sync::{Mutex, locked};

/// An outage lasts from the first renewal without an answer until no hold has such a renewal any more. It is reported
/// once at its beginning and once at its end, however many holds it has.
#[derive(Debug, Default)]
pub(super) struct Outage(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Number of holds whose last renewal has no answer.
    unanswered: usize,
    /// Number of holds that the outage has had.
    failed: usize,
    /// Number of holds that it has ended.
    lost: usize,
    /// Time of the report of its beginning.
    told: Option<Instant>,
}

/// An outage that is over.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) failed: usize,
    pub(super) lost: usize,
    pub(super) lasted: Duration,
}

impl Outage {
    /// Returns true if the beginning of an outage is to be reported now: once, while a hold is without an answer.
    pub(super) fn begins(&self) -> bool {
        let mut state = locked(&self.0);
        let begins = state.unanswered > 0 && state.told.is_none();
        if begins {
            state.told = Some(Instant::now());
        }
        begins
    }

    /// Returns the outage if its last hold leaves it, and it was reported.
    fn leave(&self, is_lost: bool) -> Option<Ended> {
        let mut state = locked(&self.0);
        state.unanswered -= 1;
        state.lost += usize::from(is_lost);
        if state.unanswered > 0 {
            return None;
        }
        let State { failed, lost, told, .. } = std::mem::take(&mut *state);
        told.map(|told| Ended { failed, lost, lasted: told.elapsed() })
    }
}

/// A hold whose last renewal has no answer. Its drop says that the hold was answered, or is over: not under a mutex, since
/// a log may block.
#[derive(Debug)]
pub(crate) struct Unanswered {
    telemetry: Arc<Telemetry>,
    is_lost: bool,
}

impl Unanswered {
    pub(crate) fn new(telemetry: Arc<Telemetry>) -> Self {
        let mut state = locked(&telemetry.outage.0);
        (state.unanswered, state.failed) = (state.unanswered + 1, state.failed + 1);
        drop(state);
        Self { telemetry, is_lost: false }
    }

    /// Ends with the hold.
    pub(crate) fn ended(mut self, is_loss: bool) {
        self.is_lost = is_loss;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(ended) = self.telemetry.outage.leave(self.is_lost) {
            self.telemetry.outage_ended(ended);
        }
    }
}
