//! Tells the waiters of this client of grants that the server pushes.

use lock_core::backend::{Attempt, Claim, Notifications, WaiterHandle};
use lock_core::{BackendError, OwnerId};

use super::listener::Listener;
use super::waits::Waits;
use crate::server::Server;

/// The waiters of this client, and its session that hears of their grants.
pub(super) struct Push {
    notifications: Notifications<Listener>,
    waits: Waits,
}

impl Push {
    pub(super) fn new(server: &Server) -> Self {
        let waits = Waits::default();
        let listener = Listener::new(server.clone(), waits.clone());
        Self { notifications: Notifications::new(listener), waits }
    }

    /// Opens the session if it is not open, as [`Notifications::open`] does.
    pub(super) async fn open(&self) -> Result<(), BackendError> {
        self.notifications.open().await
    }

    /// Remembers whom to wake for `owner`, and returns the number of its channel; `None` if it would not be heard.
    pub(super) fn register(&self, owner: OwnerId, waiter: &WaiterHandle) -> Option<i64> {
        let channel = self.notifications.register(owner, waiter)?;
        self.waits.add(owner, waiter);
        Some(channel)
    }

    /// Forgets whom to wake for `owner`.
    pub(super) fn unregister(&self, owner: OwnerId) {
        self.notifications.unregister(owner);
        self.waits.remove(owner);
    }

    /// Learns what came of an attempt.
    pub(super) fn learn(&self, claim: &Claim, attempt: &Attempt) {
        match attempt {
            Attempt::Granted(_) => self.unregister(claim.owner),
            Attempt::Busy(contention) => self.waits.place(claim, contention.position),
        }
    }
}
