//! The holds that a client renews.

use std::fmt;
use std::sync::{Arc, Weak};

use super::hold::Hold;
use super::schedule::Schedule;
use crate::backend::LossWatch;
use crate::model::{Moment, OwnerId};

/// The holds of one client.
#[derive(Default)]
pub(super) struct Registry {
    pub(super) holds: Schedule,
    /// Watches of the backend that the renewer has not taken yet.
    pub(super) watches: Vec<(Arc<Hold>, LossWatch)>,
    /// Time of the renewer's next look; `None` if it sleeps until it is woken.
    pub(super) looks_at: Option<Moment>,
    /// Holds whose leases were attached.
    attached: Vec<Weak<Hold>>,
}

/// The registration that a hold had at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a hold that is superseded belongs to another guard on the server"]
pub(crate) enum Registration {
    /// This hold, or none if the hold was already lost.
    Own,
    /// A later hold with the same lease.
    Superseded,
}

impl Registration {
    pub(crate) fn is_superseded(self) -> bool {
        self == Self::Superseded
    }
}

/// The lease of a hold is registered already.
#[derive(Debug)]
pub(crate) struct AlreadyRegistered;

impl Registry {
    /// Returns true if the lease of `owner` is held.
    pub(super) fn has(&self, owner: OwnerId) -> bool {
        self.holds.of(owner).is_some_and(|hold| !hold.is_over())
    }

    /// Notes that a lease was attached. Earlier guards of it have lost it, and give nothing back from now on.
    pub(super) fn attached(&mut self, hold: &Arc<Hold>) {
        if self.holds.of(hold.owner).is_some_and(|later| !Arc::ptr_eq(later, hold)) {
            return hold.supersede();
        }
        self.attached.retain(|earlier| earlier.strong_count() > 0);
        let earlier = self.attached.iter().filter_map(Weak::upgrade);
        earlier.filter(|earlier| earlier.owner == hold.owner).for_each(|hold| hold.supersede());
        self.attached.push(Arc::downgrade(hold));
    }

    pub(super) fn remove(&mut self, hold: &Arc<Hold>) -> Registration {
        let is_another = |other: &Arc<Hold>| !Arc::ptr_eq(other, hold);
        if hold.is_superseded() || self.holds.of(hold.owner).is_some_and(is_another) {
            return Registration::Superseded;
        }
        self.holds.remove(hold.owner);
        Registration::Own
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("holds", &self.holds).finish_non_exhaustive()
    }
}
