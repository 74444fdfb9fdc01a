//! News of a grant for a waiter.
//!
//! The grant is in the record before the waiter is told, and counts though the waiter is never told: its next
//! poll finds it.

use std::time::Duration;

use lock_core::backend::Held;
use lock_core::{LockName, Slots};
use uuid::Uuid;

use crate::machine::Now;
use crate::queue_entry::QueueEntry;

/// News of a grant for a waiter, and its address.
#[derive(Debug)]
pub(crate) struct Notification {
    pub(crate) lock: LockName,
    /// The hold, as it is until the waiter claims it.
    pub(crate) held: Held<Duration>,
    pub(crate) socket: Uuid,
    pub(crate) message: String,
}

impl Notification {
    /// Tells that the waiter holds the lock since `now`; `None` if it polls.
    pub(crate) fn of(
        waiter: &QueueEntry,
        lock: &LockName,
        held: Held<Duration>,
        now: &Now,
    ) -> Option<Self> {
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
