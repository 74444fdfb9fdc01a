//! The last granted claim of each lock, which a sound store with short owner digits does not show.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lock_core::backend::{Attempt, Claim};
use lock_core::{LockName, OwnerId};

/// The last granted claim of each lock, until its hold is ended. Expiries are not noticed.
#[derive(Debug, Default)]
pub(super) struct LastClaims(Mutex<HashMap<LockName, Claim>>);

impl LastClaims {
    /// Notes the outcome of an attempt.
    pub(super) fn note(&self, claim: &Claim, attempt: &Attempt) {
        if matches!(attempt, Attempt::Granted(_)) {
            self.lock().insert(claim.name.clone(), claim.clone());
        }
    }

    pub(super) fn of(&self, name: &LockName) -> Option<Claim> {
        self.lock().get(name).cloned()
    }

    /// Returns the names of all these locks.
    pub(super) fn names(&self) -> Vec<LockName> {
        self.lock().keys().cloned().collect()
    }

    /// Notes that the hold of `owner` was ended.
    pub(super) fn ended_by(&self, name: &LockName, owner: OwnerId) {
        let mut claims = self.lock();
        if claims.get(name).is_some_and(|claim| claim.owner == owner) {
            claims.remove(name);
        }
    }

    /// Notes that the hold was ended, for any owner.
    pub(super) fn ended(&self, name: &LockName) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LockName, Claim>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
