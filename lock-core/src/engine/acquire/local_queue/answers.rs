//! Answers of the server to the requests of a line, and signs of its head.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backend::WAITER_LIVENESS;
use crate::model::{BackendError, Contention, Listener};
use crate::sync::{Mutex, locked};

/// Records the server's answers to the requests of a line, and when its head was last seen at work.
#[derive(Debug)]
pub(crate) struct LineAnswers {
    last: Mutex<LastAnswer>,
    /// Signals that the lock was seen to be busy.
    sighted: Notify,
}

/// Start and last error of an outage of the server.
pub(crate) type Outage = (Instant, BackendError);

#[derive(Debug)]
struct LastAnswer {
    /// Time of the first request since the last answer.
    unanswered_since: Option<Instant>,
    /// Time of the last answer, or of the last hold of the line.
    at: Option<Instant>,
    /// The last "busy", until a claim of the line holds the lock. On the heap, since each hold of a line has the record.
    seen: Option<Box<(Contention, Instant)>>,
    /// Time of the last request, answer, change of the head, or look of the head at its holder, or of the end of the head's
    /// try. A head asks or looks once a second at least.
    head_seen: Instant,
    /// Time from which on a waiter watches for a sign of the head, which showed none for long.
    watched_from: Option<Instant>,
    /// The present outage of the server, as the heads saw it.
    outage: Option<Outage>,
}

impl LineAnswers {
    pub(super) fn new() -> Self {
        let (unanswered_since, at, seen, watched_from, outage) = Default::default();
        let head_seen = Instant::now();
        let last = LastAnswer { unanswered_since, at, seen, head_seen, watched_from, outage };
        Self { last: Mutex::new(last), sighted: Notify::new() }
    }

    pub(crate) fn asked(&self, at: Instant) {
        let mut last = locked(&self.last);
        last.unanswered_since.get_or_insert(at);
        (last.head_seen, last.watched_from) = (at, None);
    }

    /// Notes that the head waits for an answer until `end`, without a sign before.
    pub(crate) fn awaits_until(&self, end: Instant) {
        let mut last = locked(&self.last);
        last.head_seen = last.head_seen.max(end);
    }

    /// Notes an answer: the contention if it was "busy".
    pub(crate) fn answered(&self, busy: Option<&Contention>) {
        let (mut last, now) = (locked(&self.last), Instant::now());
        let seen = busy.map(|seen| Box::new((seen.clone(), now)));
        let is_busy = seen.is_some();
        *last = LastAnswer {
            unanswered_since: None,
            at: Some(now),
            seen,
            head_seen: now,
            watched_from: None,
            outage: None,
        };
        drop(last);
        if is_busy {
            self.sighted.notify_waiters();
        }
    }

    /// Notes that a claim of the line holds the lock: for all others it is busy now.
    pub(super) fn held(&self) {
        let mut last = locked(&self.last);
        (last.at, last.seen) = (Some(Instant::now()), None);
    }

    /// Notes a sign of the head.
    pub(super) fn see_head(&self) {
        let mut last = locked(&self.last);
        (last.head_seen, last.watched_from) = (Instant::now(), None);
    }

    /// Returns the time from which on the head counts as not polled. A silent server makes a head silent for longer.
    ///
    /// A process that was paused, or a task that polls a crowd, polls waiters before their head. So they watch it for a
    /// while before they give it up.
    pub(super) fn head_lives_until(&self) -> Instant {
        let (mut last, now) = (locked(&self.last), Instant::now());
        let is_awaited = last.unanswered_since.is_some();
        let silent_from = last.head_seen + WAITER_LIVENESS * if is_awaited { 4 } else { 1 };
        if now < silent_from {
            return silent_from;
        }
        *last.watched_from.get_or_insert(now) + WAITER_LIVENESS
    }

    /// Notes an outage, unless one is noted. An answer ends it.
    pub(crate) fn fails(&self, outage: Option<Outage>) {
        let mut last = locked(&self.last);
        last.outage = last.outage.take().or(outage);
    }
}

/// The lock, as a caller in line sees it.
#[derive(Clone, Debug)]
pub(crate) struct LineSight {
    pub(super) answers: Arc<LineAnswers>,
    /// Time at which the caller came.
    pub(super) joined: Instant,
    /// Time without an answer after which a server counts as silent, for this caller.
    pub(super) patience: Duration,
}

impl LineSight {
    /// Returns the outage, as far as the caller bore it.
    pub(crate) fn outage(&self) -> Option<Outage> {
        let outage = locked(&self.answers.last).outage.clone();
        outage.map(|(since, error)| (since.max(self.joined), error))
    }

    /// Returns the lock as the line saw it last. `None` if the server is silent: a request has had no answer for long,
    /// and no other has had one since the caller came (C48).
    pub(crate) fn contention(&self) -> Option<Contention> {
        let last = locked(&self.answers.last);
        let is_answered = last.at.is_some_and(|at| at >= self.joined);
        let is_silent = last.unanswered_since.is_some_and(|since| since.elapsed() >= self.patience);
        (is_answered || !is_silent).then(|| last.seen_from_behind().unwrap_or_default())
    }

    /// Tells `listener` each "busy" that the line receives. It does not end.
    pub(crate) async fn tell(&self, listener: &Listener<Contention>) {
        let mut told = None;
        while listener.listens() {
            // Listens before it looks, so that no answer is missed.
            let mut sighted = pin!(self.answers.sighted.notified());
            sighted.as_mut().enable();
            let (seen, at) = {
                let last = locked(&self.answers.last);
                (last.seen_from_behind(), last.seen.as_ref().map(|seen| seen.1))
            };
            if let Some(seen) = seen.filter(|_| at != told) {
                listener.tell(&seen);
                told = at;
            }
            sighted.await;
        }
        pending().await
    }
}

impl LastAnswer {
    /// Returns the last "busy" for a caller behind the head. Its own position is not known.
    fn seen_from_behind(&self) -> Option<Contention> {
        let (seen, at) = self.seen.as_deref()?;
        let ttl_left = seen.ttl_left.map(|left| left.saturating_sub(at.elapsed()));
        Some(Contention { ttl_left, position: None, ..seen.clone() })
    }
}
