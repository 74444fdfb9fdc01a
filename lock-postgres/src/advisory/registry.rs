//! The claims of one client, and those that it gave up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::backend::Withdrawals;
use lock_core::{BackendError, OwnerId};
use tokio::time::Instant;

use super::claim_handle::ClaimHandle;
use crate::error::BACKEND;

/// Whether a claim has just begun.
pub(super) struct IsNew(pub(super) bool);

/// The claims of one client that wait or hold, by owner. Dropping it ends their sessions.
pub(super) struct Registry {
    /// The start of its clock.
    started: Instant,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    claims: HashMap<OwnerId, Arc<ClaimHandle>>,
    withdrawn: Withdrawals,
}

impl Registry {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), entries: Mutex::default() }
    }

    /// The claim of an owner, which may be over.
    pub(super) fn known(&self, owner: OwnerId) -> Option<Arc<ClaimHandle>> {
        self.entries().claims.get(&owner).cloned()
    }

    /// The claim of an owner that is not over.
    pub(super) fn alive(&self, owner: OwnerId) -> Option<Arc<ClaimHandle>> {
        self.known(owner).filter(|claim| !claim.is_over())
    }

    /// The claim of an owner that is not over, or a new one; refused if it was withdrawn. An owner has
    /// one at a time, which all its requests go to (C16).
    pub(super) fn alive_or(
        &self,
        owner: OwnerId,
        begin: impl FnOnce() -> ClaimHandle,
    ) -> Result<(Arc<ClaimHandle>, IsNew), BackendError> {
        let mut entries = self.entries();
        if entries.withdrawn.contains(owner) {
            return Err(BackendError::withdrawn(BACKEND));
        }
        if let Some(alive) = entries.claims.get(&owner).filter(|claim| !claim.is_over()) {
            return Ok((alive.clone(), IsNew(false)));
        }
        if entries.claims.len() == entries.claims.capacity() {
            entries.claims.retain(|_, claim| !claim.is_over());
        }
        let begun = Arc::new(begin());
        entries.claims.insert(owner, begun.clone());
        Ok((begun, IsNew(true)))
    }

    pub(super) fn unregister(&self, owner: OwnerId) {
        self.entries().claims.remove(&owner);
    }

    /// C19: from now on every request of the claim is refused.
    pub(super) fn withdraw(&self, owner: OwnerId) {
        let now = self.started.elapsed();
        self.entries().withdrawn.remember(owner, now);
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
