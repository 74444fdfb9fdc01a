//! The holds of one client, and the claims that it gave up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{BackendError, Outcome, OwnerId};
use tokio::time::Instant;

use crate::error::BACKEND;
use crate::session::Session;

/// How long a withdrawn claim is remembered.
const WITHDRAWN_FOR: Duration = Duration::from_secs(30);

/// The sessions of the holds of one client, by owner. Dropping it ends them.
#[derive(Default)]
pub(crate) struct Book {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    sessions: HashMap<OwnerId, Arc<Session>>,
    withdrawn: HashMap<OwnerId, Instant>,
}

impl Book {
    /// The session of an owner, which may be over.
    pub(crate) fn session(&self, owner: OwnerId) -> Option<Arc<Session>> {
        self.entries().sessions.get(&owner).cloned()
    }

    /// The session of an owner that holds its lock.
    pub(crate) fn holding(&self, owner: OwnerId) -> Option<Arc<Session>> {
        self.session(owner).filter(|session| !session.is_over())
    }

    /// Notes a session, unless its claim was given up meanwhile.
    pub(crate) fn enter(&self, session: &Arc<Session>) -> Result<(), BackendError> {
        let owner = session.held.owner;
        let mut entries = self.entries();
        entries.admit(owner)?;
        if entries.sessions.len() == entries.sessions.capacity() {
            entries.sessions.retain(|_, session| !session.is_over());
        }
        entries.sessions.insert(owner, session.clone());
        Ok(())
    }

    pub(crate) fn forget(&self, owner: OwnerId) {
        self.entries().sessions.remove(&owner);
    }

    /// Notes that a claim was given up.
    pub(crate) fn withdraw(&self, owner: OwnerId) {
        let withdrawn = &mut self.entries().withdrawn;
        withdrawn.retain(|_, at| at.elapsed() < WITHDRAWN_FOR);
        withdrawn.insert(owner, Instant::now());
    }

    /// Refuses a request of a claim that was given up.
    pub(crate) fn admit(&self, owner: OwnerId) -> Result<(), BackendError> {
        self.entries().admit(owner)
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn admit(&self, owner: OwnerId) -> Result<(), BackendError> {
        match self.withdrawn.contains_key(&owner) {
            false => Ok(()),
            true => {
                let context = "the claim was withdrawn";
                Err(BackendError::permanent(BACKEND, Outcome::NotApplied, context, context))
            }
        }
    }
}
