//! A claim that cleans up after itself.

use std::sync::Arc;
use std::time::Duration;

use super::claim_state::ClaimEvent;
use super::claim_state::ClaimState::{self, Held, HeldUnresolved};
use super::janitor::Janitor;
use crate::backend::{Release, Reservation, Reserved};
use crate::engine::client::Store;
use crate::model::{BackendError, Claim, Lease, LockError, LockName, Outcome, OwnerId};

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
    /// Returns a claim of which nothing was sent.
    pub(crate) fn new(claim: &Claim, janitor: Arc<Janitor>) -> Self {
        let (name, kept_for) = (claim.name.clone(), claim.ttl.as_duration());
        Self { janitor, name, owner: claim.owner, kept_for, state: ClaimState::Absent }
    }

    /// Returns the claim of a lease that is held.
    pub(crate) fn of(lease: &Lease, janitor: Arc<Janitor>) -> Self {
        let (name, owner) = (lease.name.clone(), lease.owner);
        let state = if lease.unresolved { HeldUnresolved } else { Held };
        Self { janitor, name, owner, kept_for: lease.kept_for(), state }
    }

    /// Notes an event.
    pub(crate) fn note(&mut self, event: ClaimEvent) {
        self.state = self.state.after(event);
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

    /// Ends the hold on the server. If `reservation` is asked for and made, the hold stays for other tasks of this client.
    ///
    /// A try whose reply was lost may have released the hold, and then the next try finds none. While the lease has
    /// not expired, that counts as our own release.
    pub(crate) async fn release(
        &mut self,
        lease: &Lease,
        mut reservation: Option<Reservation>,
    ) -> Result<Reserved, LockError> {
        let store = &self.janitor.store;
        // A hold in doubt is released: only the first try asks for a reservation.
        let ask = |is_unknown| self.ask_to_release(lease, reservation.take(), is_unknown);
        let failed = match store.request_within(store.options.request_timeout, ask).await {
            Ok(reserved) => return Ok(self.answered(reserved)),
            Err(failed) => failed,
        };
        let (is_transient, outcome) = (failed.is_transient(), failed.outcome());
        let error = LockError::backend("release", Some(&self.name), failed);
        // Without the right to wake waiters, the server refuses after the end of the hold. A repeat finds no hold then.
        let is_over = !is_transient && outcome == Outcome::Unknown && {
            let again = store.request_once(self.ask_to_release(lease, None, true)).await;
            matches!(again, Ok(Reserved::Ended(Release::Released)))
        };
        if is_over || is_transient {
            store.telemetry.release_failed(lease, &error);
        }
        // The janitor repeats a failed release, and reports the refusal of one.
        if is_over { Ok(self.answered(Reserved::Ended(Release::Released))) } else { Err(error) }
    }

    async fn ask_to_release(
        &self,
        lease: &Lease,
        reservation: Option<Reservation>,
        is_unknown: bool,
    ) -> Result<Reserved, BackendError> {
        let Store { backend, client } = &*self.janitor.store;
        let answer = match reservation.zip(backend.token_ranges()) {
            Some((reservation, ranges)) => ranges.release_or_reserve(&reservation).await?,
            None => Reserved::Ended(backend.release(&self.name, self.owner).await?),
        };
        match answer {
            // C16: the try whose reply was lost has released it.
            Reserved::Ended(_) if is_unknown && !client.has_expired(lease) => {
                Ok(Reserved::Ended(Release::Released))
            }
            answer => Ok(answer),
        }
    }

    /// Notes the end of the hold, unless tokens were reserved for it.
    fn answered(&mut self, reserved: Reserved) -> Reserved {
        if let Reserved::Ended(release) = reserved {
            self.janitor.store.telemetry.given_back(&self.name, release);
            self.ended();
        }
        reserved
    }

    /// Notes that the server has no hold of the claim any more.
    pub(crate) fn ended(&mut self) {
        self.note(ClaimEvent::Ended);
    }

    /// Leaves the hold to another: this claim does not take it back. Returns true if a request of it may come late.
    pub(crate) fn hand_on(mut self) -> bool {
        std::mem::take(&mut self.state).is_unresolved()
    }
}

impl Drop for OwnedClaim {
    fn drop(&mut self) {
        self.janitor.clear(&self.name, self.owner, self.state, self.kept_for);
    }
}
