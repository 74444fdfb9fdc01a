//! The last claim that was granted each lock: what a sound store of owners' digits does not tell.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lock_core::backend::{Attempt, Claim};
use lock_core::{LockName, OwnerId};

/// The claim that was granted each lock last, until it is ended. Its expiry goes unnoticed.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<HashMap<LockName, Claim>>);

impl Claims {
    /// Notes what an attempt came to.
    pub(super) fn note(&self, claim: &Claim, attempt: &Attempt) {
        if matches!(attempt, Attempt::Granted(_)) {
            self.lock().insert(claim.name.clone(), claim.clone());
        }
    }

    pub(super) fn of(&self, name: &LockName) -> Option<Claim> {
        self.lock().get(name).cloned()
    }

    /// The names of all of them.
    pub(super) fn names(&self) -> Vec<LockName> {
        self.lock().keys().cloned().collect()
    }

    /// The hold of `owner` was ended.
    pub(super) fn ended_by(&self, name: &LockName, owner: OwnerId) {
        let mut claims = self.lock();
        if claims.get(name).is_some_and(|claim| claim.owner == owner) {
            claims.remove(name);
        }
    }

    /// The hold was ended, whose ever it was.
    pub(super) fn ended(&self, name: &LockName) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LockName, Claim>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
