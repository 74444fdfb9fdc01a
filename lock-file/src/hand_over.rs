//! How a lock passes to the next of its waiters.
//!
//! ```text
//!   the first that is alive ──▶ granted in the record ──▶ told by its socket
//!     │ silent for 3 s, or nobody has its socket
//!     └──▶ the one behind it
//! ```
//!
//! The grant is in the record before the waiter is told, and counts though the waiter is never told: its next
//! poll finds it.

use lock_core::backend::UNCLAIMED_GRANT_TTL;
use lock_core::{BackendError, OwnerId};

use crate::fault;
use crate::locked_file::LockedFile;
use crate::machine::Now;
use crate::queue::Queued;
use crate::record::{Hold, Record};
use crate::sockets::{Line, Reach, Sockets};

/// The waiter whose turn it is.
#[derive(Debug)]
pub(crate) struct Successor {
    queued: Queued,
    /// The way to its process; `None` if it polls, or asks itself.
    line: Option<Line>,
}

/// What a waiter is told of its grant.
#[derive(Debug)]
pub(crate) struct Notification {
    line: Line,
    message: String,
}

impl Notification {
    /// Tells the waiter. The file is no longer locked then: the waiter may be slow to hear.
    pub(crate) fn send(&self) {
        self.line.send(&self.message);
    }
}

/// The first waiter that is alive. The one that is `asking`, if any, is.
pub(crate) fn successor(
    file: &LockedFile,
    record: &Record,
    asking: Option<OwnerId>,
    sockets: &Sockets,
    now: &Now,
) -> Result<Option<Successor>, BackendError> {
    for queued in record.queue(now).alive(file, now) {
        let queued = queued?;
        let socket = queued.entry.socket.filter(|_| Some(queued.entry.owner) != asking);
        match socket.map_or(Reach::Unknown, |socket| sockets.reach(socket)) {
            Reach::Alive(line) => return Ok(Some(Successor { queued, line: Some(line) })),
            Reach::Unknown => return Ok(Some(Successor { queued, line: None })),
            // C28: nobody hears there, so the waiter is dead, and costs nothing.
            Reach::Gone => {}
        }
    }
    Ok(None)
}

/// The lock without its holder: in the hands of the first waiter that is alive, if there is one.
pub(crate) fn hand_over(
    file: &LockedFile,
    record: Record,
    sockets: &Sockets,
    now: &Now,
) -> Result<(Record, Option<Notification>), BackendError> {
    match successor(file, &record, None, sockets, now)? {
        Some(next) => next.granted(&record, now),
        None => Ok((record.released(), None)),
    }
}

impl Successor {
    pub(crate) fn owner(&self) -> OwnerId {
        self.queued.entry.owner
    }

    /// The place that it had.
    pub(crate) fn queued(&self) -> &Queued {
        &self.queued
    }

    /// The lock in its hands, though it did not ask just now.
    pub(crate) fn granted(
        self,
        last: &Record,
        now: &Now,
    ) -> Result<(Record, Option<Notification>), BackendError> {
        let entry = &self.queued.entry;
        // C28: until it renews, so that one that died in silence costs no more.
        let ttl = entry.ttl.min(UNCLAIMED_GRANT_TTL);
        let hold = Hold::new(entry.owner, entry.label.clone(), ttl, now);
        let record = Record::granted(&last.name, Some(last), hold, now);
        let record = record.map_err(fault::out_of_tokens)?;
        let record = record.with_queue(last.queue(now).after(&self.queued));
        let (owner, token) = (entry.owner.expose(), record.token);
        let (millis, at) = (ttl.as_millis(), now.server_time().0.as_micros());
        let message = format!("{owner}:{token}:{millis}:{at}");
        Ok((record, self.line.map(|line| Notification { line, message })))
    }
}
