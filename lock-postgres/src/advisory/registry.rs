//! The holds of one client, and the claims that it gave up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::backend::Withdrawals;
use lock_core::{BackendError, OwnerId};
use tokio::time::Instant;

use super::session::Session;
use crate::error::BACKEND;

/// The sessions of the holds of one client, by owner. Dropping it ends them.
pub(super) struct Registry {
    /// The start of its clock.
    started: Instant,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    sessions: HashMap<OwnerId, Arc<Session>>,
    withdrawn: Withdrawals,
}

impl Registry {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), entries: Mutex::default() }
    }

    /// The session of an owner, which may be over.
    pub(super) fn session(&self, owner: OwnerId) -> Option<Arc<Session>> {
        self.entries().sessions.get(&owner).cloned()
    }

    /// The session of an owner that holds its lock.
    pub(super) fn holding(&self, owner: OwnerId) -> Option<Arc<Session>> {
        self.session(owner).filter(|session| !session.is_over())
    }

    /// Notes a session, unless its claim was withdrawn meanwhile.
    pub(super) fn register(&self, session: &Arc<Session>) -> Result<(), BackendError> {
        let owner = session.held.owner;
        let mut entries = self.entries();
        entries.admit(owner)?;
        if entries.sessions.len() == entries.sessions.capacity() {
            entries.sessions.retain(|_, session| !session.is_over());
        }
        entries.sessions.insert(owner, session.clone());
        Ok(())
    }

    pub(super) fn unregister(&self, owner: OwnerId) {
        self.entries().sessions.remove(&owner);
    }

    /// C19: from now on every request of the claim is refused.
    pub(super) fn withdraw(&self, owner: OwnerId) {
        let now = self.started.elapsed();
        self.entries().withdrawn.remember(owner, now);
    }

    /// Refuses a request of a claim that was withdrawn.
    pub(super) fn admit(&self, owner: OwnerId) -> Result<(), BackendError> {
        self.entries().admit(owner)
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn admit(&self, owner: OwnerId) -> Result<(), BackendError> {
        match self.withdrawn.contains(owner) {
            false => Ok(()),
            true => Err(BackendError::withdrawn(BACKEND)),
        }
    }
}
