//! A claim that leaves nothing behind.

use std::sync::Arc;
use std::time::Duration;

use super::claim_state::{ClaimEvent, ClaimState};
use super::janitor::{Janitor, Remains};
use crate::model::{AtLeast, Lease, LockName, OwnerId};

/// A claim, and what the server may know of it. Dropped at any point, it has the janitor take back
/// whatever that is (C19, C20).
///
/// It is made before the first request of an acquisition is sent. It passes to the guard with the grant,
/// and is settled when the hold ends.
#[derive(Debug)]
pub(crate) struct OwnedClaim {
    janitor: Arc<Janitor>,
    name: LockName,
    owner: OwnerId,
    /// After this long the server has forgotten the claim by itself.
    kept_for: Duration,
    /// For how long its hold keeps others out, however early its work ends.
    at_least: Option<Box<AtLeast>>,
    state: ClaimState,
}

impl OwnedClaim {
    pub(crate) fn new(
        janitor: Arc<Janitor>,
        name: LockName,
        owner: OwnerId,
        kept_for: Duration,
    ) -> Self {
        Self { janitor, name, owner, kept_for, at_least: None, state: ClaimState::Absent }
    }

    /// The same claim in another state: that of a lease that is taken over.
    pub(crate) fn in_state(mut self, state: ClaimState) -> Self {
        self.state = state;
        self
    }

    /// Returns the server's knowledge of the claim.
    pub(crate) fn state(&mut self) -> &mut ClaimState {
        &mut self.state
    }

    /// Returns true if the server knows nothing of the claim.
    pub(crate) fn is_absent(&self) -> bool {
        self.state == ClaimState::Absent
    }

    /// Returns true if the server has the hold, and nothing else of the claim.
    pub(crate) fn is_held(&self) -> bool {
        self.state == ClaimState::Held
    }

    /// The claim is asked for with this TTL too.
    pub(crate) fn keep_for(&mut self, ttl: Duration) {
        self.kept_for = self.kept_for.max(ttl);
    }

    /// The server keeps the hold from now on as its lease says.
    pub(crate) fn keep_as(&mut self, lease: &Lease) {
        (self.kept_for, self.at_least) = (lease.kept_for(), lease.at_least.clone());
    }

    /// The server knows of no hold of it any more.
    pub(crate) fn ended(&mut self) {
        self.state.note(ClaimEvent::Ended);
    }

    /// Leaves the hold to another: nobody takes it back from here. Tells whether a request of it may
    /// come late.
    pub(crate) fn hand_on(mut self) -> bool {
        std::mem::take(&mut self.state).is_unresolved()
    }
}

impl Drop for OwnedClaim {
    fn drop(&mut self) {
        let remains = match self.state {
            ClaimState::Absent => return,
            ClaimState::Held => Remains::Hold,
            ClaimState::Pending | ClaimState::Unresolved | ClaimState::HeldUnresolved => {
                Remains::Claim
            }
        };
        let at_least = self.at_least.as_deref().copied();
        self.janitor.clear(remains, &self.name, self.owner, self.kept_for, at_least);
    }
}
