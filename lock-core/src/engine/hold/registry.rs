//! The holds that a client renews.

use std::fmt;
use std::sync::{Arc, Weak};

use super::Hold;
use super::schedule::Schedule;
use crate::backend::LossWatch;
use crate::model::{Lease, LockError, LostReason, Moment, OwnerId};

/// The holds of one client.
#[derive(Default)]
pub(in crate::engine) struct Registry {
    pub(super) holds: Schedule,
    /// Watches of the backend that the renewer has not taken yet.
    pub(super) watches: Vec<(Arc<Hold>, LossWatch)>,
    /// Time of the renewer's next look; `None` if it sleeps until it is woken.
    pub(super) looks_at: Option<Moment>,
    /// Owners whose leases are being attached.
    attaching: Vec<Weak<OwnerId>>,
    /// Holds whose leases were attached.
    attached: Vec<Weak<Hold>>,
}

impl Registry {
    /// Returns true if the lease of `owner` is held.
    pub(super) fn has(&self, owner: OwnerId) -> bool {
        self.holds.of(owner).is_some_and(|hold| !hold.is_over())
    }

    /// Lets a lease be attached, unless a guard of it holds it or gives it back, or another call attaches it. Earlier guards
    /// of it have lost it, and give nothing back from now on. The call ends with the drop of the result.
    pub(super) fn attaching(&mut self, lease: &Lease) -> Result<Arc<OwnerId>, LockError> {
        let (name, owner) = (lease.name.clone(), Arc::new(lease.owner));
        self.attaching.retain(|other| other.strong_count() > 0);
        let mut others = self.attaching.iter().filter_map(Weak::upgrade);
        if others.any(|other| other == owner) || self.has(lease.owner) {
            return Err(LockError::AlreadyAttached { name });
        }
        let earlier = self.attached.iter().filter_map(Weak::upgrade);
        match earlier.filter(|hold| hold.owner == lease.owner).all(|hold| hold.supersede()) {
            true => {
                self.attaching.push(Arc::downgrade(&owner));
                Ok(owner)
            }
            false => Err(LockError::Lost { name, reason: LostReason::Released, source: None }),
        }
    }

    /// Notes that the lease of a hold was attached.
    pub(super) fn attached(&mut self, hold: &Arc<Hold>) {
        self.attached.retain(|earlier| earlier.strong_count() > 0);
        self.attached.push(Arc::downgrade(hold));
    }

    pub(super) fn remove(&mut self, hold: &Arc<Hold>) {
        match self.holds.of(hold.owner) {
            Some(later) if !Arc::ptr_eq(later, hold) => _ = hold.supersede(),
            _ => self.holds.remove(hold.owner),
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("holds", &self.holds).finish_non_exhaustive()
    }
}
