//! How a lock passes to the next of its waiters.
//!
//! ```text
//!   the first that is alive ──▶ granted in the record ──▶ told by its socket
//!          ▲                                                   │
//!          └────────── its hold is ended again ◀───────────────┘ nobody has that socket
//! ```
//!
//! The grant is in the record before the waiter is told, and counts though the waiter is never told: its next
//! poll finds it.

use lock_core::BackendError;
use lock_core::backend::UNCLAIMED_GRANT_TTL;
use uuid::Uuid;

use crate::fault;
use crate::locked_file::LockedFile;
use crate::machine::Now;
use crate::queue::Queued;
use crate::record::{Hold, Record};

/// What a waiter is to be told of its grant, and where.
#[derive(Debug)]
pub(crate) struct Notification {
    /// The lock, as it is in the hands of the waiter until that claims it.
    pub(crate) granted: Record,
    pub(crate) socket: Uuid,
    pub(crate) message: String,
}

/// The first waiter that is alive, as far as the queue tells.
pub(crate) fn first_waiter(
    file: &LockedFile,
    record: &Record,
    now: &Now,
) -> Result<Option<Queued>, BackendError> {
    record.queue(now).alive(file, now).next().transpose()
}

/// The lock without its holder: in the hands of the first waiter, if there is one.
pub(crate) fn hand_over(
    file: &LockedFile,
    record: Record,
    now: &Now,
) -> Result<(Record, Option<Notification>), BackendError> {
    match first_waiter(file, &record, now)? {
        Some(first) => grant_to(&first, &record, now),
        None => Ok((record.released(), None)),
    }
}

/// The lock in the hands of `next`, who did not ask just now; `None` if it polls.
pub(crate) fn grant_to(
    next: &Queued,
    last: &Record,
    now: &Now,
) -> Result<(Record, Option<Notification>), BackendError> {
    let entry = &next.entry;
    // C28: until it renews, so that one that died in silence costs no more.
    let ttl = entry.ttl.min(UNCLAIMED_GRANT_TTL);
    let hold = Hold::new(entry.owner, entry.label.clone(), ttl, now);
    let record = Record::granted(&last.name, Some(last), hold, now);
    let record = record.map_err(fault::out_of_tokens)?;
    let record = record.with_queue(last.queue(now).after(next));
    let (owner, token) = (entry.owner.expose(), record.token);
    let (millis, at) = (ttl.as_millis(), now.server_time().0.as_micros());
    let message = format!("{owner}:{token}:{millis}:{at}");
    let notification =
        entry.socket.map(|socket| Notification { granted: record.clone(), socket, message });
    Ok((record, notification))
}
