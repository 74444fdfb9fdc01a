//! A claim that cleans up after itself.

use std::sync::Arc;
use std::time::Duration;

use super::claim_state::{ClaimEvent, ClaimState};
use super::janitor::{Janitor, Remains};
use crate::model::{LockName, OwnerId};

/// A claim, and its state on the server. Dropped at any point, it makes the janitor take back whatever the server may
/// have (C19, C20).
///
/// The claim is made before the first request of an acquisition is sent. It passes to the guard with the grant, and ends
/// with the hold.
#[derive(Debug)]
pub(crate) struct OwnedClaim {
    janitor: Arc<Janitor>,
    name: LockName,
    owner: OwnerId,
    /// The time after which the server has forgotten the claim.
    kept_for: Duration,
    state: ClaimState,
}

impl OwnedClaim {
    pub(crate) fn new(
        janitor: Arc<Janitor>,
        name: LockName,
        owner: OwnerId,
        kept_for: Duration,
    ) -> Self {
        Self { janitor, name, owner, kept_for, state: ClaimState::Absent }
    }

    /// Sets the state: that of a lease that is taken over.
    pub(crate) fn in_state(mut self, state: ClaimState) -> Self {
        self.state = state;
        self
    }

    /// Returns the state of the claim on the server.
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

    /// Returns true if a request of the claim may come late.
    pub(crate) fn is_unresolved(&self) -> bool {
        self.state.is_unresolved()
    }

    /// Notes that the server may keep the claim for this TTL too.
    pub(crate) fn keep_for(&mut self, ttl: Duration) {
        self.kept_for = self.kept_for.max(ttl);
    }

    /// Notes that the server has no hold of the claim any more.
    pub(crate) fn ended(&mut self) {
        self.state.note(ClaimEvent::Ended);
    }

    /// Leaves the hold to another: this claim does not take it back. Returns true if a request of it may come late.
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
        self.janitor.clear(remains, &self.name, self.owner, self.kept_for);
    }
}
