//! Answers of the server to the requests of a line, and signs of its head.

use tokio::time::Instant;

use crate::backend::WAITER_LIVENESS;
use crate::model::BackendError;
use crate::sync::{Mutex, locked};

/// Records if the server answers the requests of a line, and when its head was last seen at work.
#[derive(Debug)]
pub(crate) struct LineAnswers(Mutex<LastAnswer>);

/// Start and last error of an outage of the server.
pub(crate) type Outage = (Instant, BackendError);

#[derive(Debug)]
struct LastAnswer {
    is_awaited: bool,
    at: Option<Instant>,
    /// Time of the last request or answer, or of the change of the head. A head asks once a second at least.
    head_seen: Instant,
    /// Time from which on a waiter watches for a sign of the head, which showed none for long.
    watched_from: Option<Instant>,
    /// The present outage of the server, as the heads saw it.
    outage: Option<Outage>,
}

impl LastAnswer {
    fn new(at: Option<Instant>) -> Self {
        let (is_awaited, watched_from, outage) = Default::default();
        Self { is_awaited, at, head_seen: Instant::now(), watched_from, outage }
    }
}

impl LineAnswers {
    pub(super) fn new() -> Self {
        Self(Mutex::new(LastAnswer::new(None)))
    }

    pub(crate) fn asked(&self, at: Instant) {
        let mut last = locked(&self.0);
        (last.is_awaited, last.head_seen, last.watched_from) = (true, at, None);
    }

    pub(crate) fn answered(&self) {
        *locked(&self.0) = LastAnswer::new(Some(Instant::now()));
    }

    pub(super) fn head_changes(&self) {
        let mut last = locked(&self.0);
        (last.head_seen, last.watched_from) = (Instant::now(), None);
    }

    /// Returns the time from which on the head counts as not polled. A silent server makes a head silent for longer.
    ///
    /// A process that was paused, or a task that polls a crowd, polls waiters before their head. So they watch it for a
    /// while before they give it up.
    pub(super) fn head_lives_until(&self) -> Instant {
        let (mut last, now) = (locked(&self.0), Instant::now());
        let silent_from = last.head_seen + WAITER_LIVENESS * if last.is_awaited { 4 } else { 1 };
        if now < silent_from {
            return silent_from;
        }
        *last.watched_from.get_or_insert(now) + WAITER_LIVENESS
    }

    /// Notes an outage, unless one is noted. An answer ends it.
    pub(crate) fn fails(&self, outage: Option<Outage>) {
        let mut last = locked(&self.0);
        last.outage = last.outage.take().or(outage);
    }

    /// Returns the outage, as far as a waiter bore it that joined the line at `joined`.
    pub(crate) fn outage_since(&self, joined: Instant) -> Option<Outage> {
        let outage = locked(&self.0).outage.clone();
        outage.map(|(since, error)| (since.max(joined), error))
    }

    /// Returns true if an answer is awaited, and none has come since `since`.
    pub(super) fn is_silent_since(&self, since: Instant) -> bool {
        let last = locked(&self.0);
        last.is_awaited && last.at.is_none_or(|at| at < since)
    }
}
