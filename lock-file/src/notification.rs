//! Message of a grant to a waiter.
//!
//! The grant is in the record before the message is sent, and is valid without the message: the waiter's next poll
//! finds it.

use lock_core::backend::Held;
use lock_core::{LockName, Slots};
use uuid::Uuid;

use crate::machine::Now;
use crate::queue_entry::QueueEntry;

/// Message of a grant to a waiter, and its address.
#[derive(Debug)]
pub(crate) struct Notification {
    pub(crate) lock: LockName,
    /// The hold, until the waiter claims it.
    pub(crate) held: Held,
    pub(crate) socket: Uuid,
    pub(crate) message: String,
}

impl Notification {
    /// Returns the message that the waiter holds the lock since `now`; `None` if the waiter polls.
    pub(crate) fn of(waiter: &QueueEntry, lock: &LockName, held: Held, now: &Now) -> Option<Self> {
        let socket = waiter.socket?;
        let (owner, millis) = (held.owner.expose(), (held.expires - now.uptime).as_millis());
        let at = now.server_time().0.as_micros();
        let mut message = format!("{owner}:{}:{millis}:{at}", held.token);
        if held.slots != Slots::NONE {
            message += &format!(":{}", held.slots);
        }
        Some(Self { lock: lock.clone(), held, socket, message })
    }
}
