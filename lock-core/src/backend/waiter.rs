//! Wakes one waiting claim.

use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use super::answers::Grant;
use crate::sync::{Mutex, locked};

/// Wakes one waiting claim. A backend keeps it for as long as the claim is queued.
///
/// Waking never blocks and may be repeated. A second wake-up is dropped while the first is unread, since the waiter
/// will look at the server anyway.
#[derive(Clone, Debug)]
pub struct WaiterHandle(Weak<Mailbox>);

/// News for a waiter.
#[derive(Clone, Debug)]
pub enum WaiterEvent {
    /// The waiter holds the lock.
    Granted(Grant),
    /// The waiter must ask again.
    TryAgain,
}

/// The receiving end of a waiter's events. After its drop nobody waits any more.
#[derive(Debug)]
pub struct WaiterEvents(Arc<Mailbox>);

/// Room for one event. A standard channel has room for many, and each acquisition would pay for that.
#[derive(Debug, Default)]
struct Mailbox {
    event: Mutex<Option<WaiterEvent>>,
    arrived: Notify,
}

impl WaiterHandle {
    /// Makes a waiter: the handle for the backend, and the events for the waiter. A client makes one for each claim
    /// that waits; a test of a backend makes its own.
    pub fn channel() -> (Self, WaiterEvents) {
        let mailbox = Arc::default();
        (Self(Arc::downgrade(&mailbox)), WaiterEvents(mailbox))
    }

    /// Tells the waiter that it holds the lock.
    ///
    /// The grant has its time on the server's clock, and so has the [`Contention`] of the attempt that queued the
    /// claim. A grant without the time is confirmed by a further attempt.
    ///
    /// [`Contention`]: crate::Contention
    pub fn granted(&self, grant: Grant) {
        self.tell(WaiterEvent::Granted(grant));
    }

    /// Tells the waiter to look again.
    pub fn try_again(&self) {
        self.tell(WaiterEvent::TryAgain);
    }

    /// Returns true if the waiter has gone, so that nobody would receive an event.
    pub fn is_closed(&self) -> bool {
        self.0.strong_count() == 0
    }

    fn tell(&self, event: WaiterEvent) {
        let Some(mailbox) = self.0.upgrade() else { return };
        locked(&mailbox.event).get_or_insert(event);
        mailbox.arrived.notify_one();
    }
}

impl WaiterEvents {
    /// Waits for the next event.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn next(&self) -> WaiterEvent {
        loop {
            if let Some(event) = self.take() {
                return event;
            }
            self.0.arrived.notified().await;
        }
    }

    fn take(&self) -> Option<WaiterEvent> {
        locked(&self.0.event).take()
    }
}
