//! Ends of a hold: the release, the pass to the next task, the detachment, the drop.

use super::LockGuard;
use crate::backend::{Release, Reservation, Reserved, TokenRange};
use crate::engine::{Acquired, InFlight, OwnedClaim, Succession, is_worth_passing};
use crate::model::{Lease, LockError, LostReason};

impl LockGuard {
    /// Ends the hold, and reports if it lasted until now (C47).
    ///
    /// `Ok` means that nobody else held the lock while the work was done, as far as this side and the server know; a
    /// [`Fence`](crate::Fence) decides. This returns once the server has answered, or at once if the lock
    /// [passes](crate::ClientOptions::local_hand_off) to the next task of this client. **A server that does not
    /// answer, or refuses, is no error of the work**: the hold lasted. The janitor goes on with the release, and the
    /// TTL ends the hold at the latest. A warning of `tracing` reports a lock that could not be released: at once if
    /// the server refuses, else when the janitor gives up. Use [`release_confirmed`](Self::release_confirmed) if you
    /// need the server's own answer.
    ///
    /// If other guards share the hold ([`Reentrance`](crate::Reentrance)), the hold goes on, and the result is the
    /// same.
    ///
    /// # Errors
    /// [`LockError::Lost`] if the hold was over before the call: its work may have overlapped with another holder.
    ///
    /// # Cancel safety
    /// If the future is dropped, the janitor releases the lock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockError, LostReason, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let guard = locks.acquire("nightly").await?;
    /// locks.admin().evict("nightly").await?;
    /// let ended = guard.release().await;
    /// assert!(matches!(ended, Err(LockError::Lost { reason: LostReason::Evicted, .. })));
    /// # Ok(()) }
    /// ```
    pub async fn release(mut self) -> Result<(), LockError> {
        // A known loss needs no answer of the server: the drop cleans up.
        self.hold.error_if_lost()?;
        let in_flight = self.shared.janitor.begin();
        if !self.is_last() || self.pass_on() {
            return Ok(());
        }
        let (shared, hold) = (self.shared.clone(), self.hold.clone());
        let reservation = self.reservation();
        match self.end(reservation, in_flight).await {
            // Once the lease has expired, "not held" may be a normal end.
            Ok(Release::NotHeld) if !shared.has_expired(&hold.lease()) => {
                // A shutdown may have been first.
                let told = hold.lost_reason().filter(|reason| *reason == LostReason::Shutdown);
                Err(hold.lost_error(told.unwrap_or(LostReason::Evicted)))
            }
            // A failed release is no error of the work. `tracing` reports it.
            Ok(Release::Released | Release::NotHeld) | Err(_) => Ok(()),
        }
    }

    /// Ends the hold, and returns the server's own answer: if there was a hold of ours to end.
    ///
    /// The lock is not held from the call on (C11). This is for operators and tests; [`release`](Self::release)
    /// returns what the work needs.
    ///
    /// # Errors
    /// - [`LockError::Backend`] if the server did not answer within the request time-out. The janitor goes on with
    ///   the release, and the TTL ends the hold at the latest.
    /// - [`LockError::AlreadyAttached`] if another guard shares the hold ([`Reentrance`](crate::Reentrance)), which goes on.
    ///
    /// # Cancel safety
    /// If the future is dropped, the janitor releases the lock.
    pub async fn release_confirmed(mut self) -> Result<Release, LockError> {
        self.shared.refuse_in_fork("release", Some(self.name()))?;
        self.error_unless_last()?;
        let in_flight = self.shared.janitor.begin();
        self.end(None, in_flight).await
    }

    /// Ends the hold on the server, or passes it on under tokens that the server reserves.
    ///
    /// A shutdown waits until `_in_flight` is dropped. `guard` is dropped before it, so the janitor has counted the
    /// remains of the guard by then.
    async fn end(
        self,
        reservation: Option<Reservation>,
        _in_flight: InFlight,
    ) -> Result<Release, LockError> {
        let mut guard = self;
        let keeps_out = guard.hold.keeps_out();
        if !guard.stop_holding() {
            return Ok(if keeps_out { Release::Released } else { Release::NotHeld });
        }
        let (yielded, is_plain) = match &reservation {
            Some(asked) => (asked.yields, false),
            None => (false, true),
        };
        match guard.shared.release(&guard.hold.lease(), reservation).await {
            Ok(Reserved::Tokens(tokens)) => {
                guard.pass_under(tokens, yielded);
                Ok(Release::Released)
            }
            Ok(Reserved::Ended(release)) => {
                guard.shared.telemetry.given_back(guard.name(), release);
                if let Some(mut claim) = guard.claim.take() {
                    claim.ended();
                }
                Ok(release)
            }
            Err(error) => {
                guard.release_failed(&error, is_plain);
                Err(error)
            }
        }
    }

    /// Reports a failed release. The janitor repeats it, unless the server permanently refused the request that the
    /// janitor would send.
    fn release_failed(&mut self, error: &LockError, is_plain: bool) {
        let telemetry = &self.shared.telemetry;
        let is_refused = matches!(error, LockError::Backend { source, .. } if source.is_refused());
        match self.claim.as_mut().filter(|claim| is_plain && is_refused && claim.is_held()) {
            Some(claim) => {
                claim.ended();
                telemetry.not_given_back(&self.hold.lease().name, error);
            }
            None => telemetry.release_failed(&self.hold.lease(), error),
        }
    }

    /// Passes the hold on to the next task of this client, if there is one, and a token for it.
    fn pass_on(&mut self) -> bool {
        if !self.succession.as_ref().is_some_and(Succession::has_next) || !self.may_pass() {
            return false;
        }
        if !self.stop_holding() {
            return true;
        }
        let (Some(succession), Some(claim)) = (self.succession.take(), self.claim.take()) else {
            return false;
        };
        self.claim = succession.pass(self.hold.lease(), claim).err();
        self.shared.passed_on();
        self.claim.is_none()
    }

    /// Passes the hold on under tokens that were just reserved. If no task takes it, it is released.
    fn pass_under(&mut self, tokens: TokenRange, yielded: bool) {
        if let (Some(succession), Some(claim)) = (self.succession.take(), self.claim.take()) {
            self.claim = succession.reserved(tokens, yielded).pass(self.hold.lease(), claim).err();
            self.shared.passed_on();
        }
    }

    /// Returns the tokens to reserve, if a reservation replaces the plain release.
    fn reservation(&self) -> Option<Reservation> {
        let next = self.succession.as_ref().filter(|next| next.is_awaited() && self.may_pass())?;
        next.reservation(&self.hold.lease())
    }

    /// Returns true if the hold can pass to another task: its state is certain, and enough time is left.
    fn may_pass(&self) -> bool {
        let options = &self.shared.options;
        self.claim.as_ref().is_some_and(OwnedClaim::is_held)
            && is_worth_passing(&self.hold.lease(), options.drift, options.clock.now())
    }

    /// Takes the lease out of the guard. From then on it is neither renewed nor released.
    ///
    /// A hold that was gained by waiting gets its whole TTL by its first renewal, about 0.1 s after the grant. Before
    /// that its lease lasts for 1.8 s (etcd) to 3 s: call [`extend`](Self::extend) first if the next owner may need longer.
    ///
    /// # Errors
    /// - [`LockError::Lost`] if the lock is lost.
    /// - [`LockError::AlreadyAttached`] if another guard shares the hold ([`Reentrance`](crate::Reentrance)), which goes on.
    pub fn detach(mut self) -> Result<Lease, LockError> {
        self.hold.error_if_lost()?;
        self.error_unless_last()?;
        self.held = None;
        self.hold.supersede();
        let mut lease = self.hold.lease();
        lease.bound = self.hold.bound().map(Box::new);
        lease.unresolved = self.claim.take().is_some_and(OwnedClaim::hand_on);
        Ok(lease)
    }

    /// Returns true if this guard alone ends the hold: no other guard shares it, and the hold has not ended.
    fn is_last(&mut self) -> bool {
        // C43: the last guard of a hold gives it back.
        if let Some((by, joint)) = self.joint.take()
            && let Some(last) = self.shared.joint_holds.last(&by, joint)
        {
            let Acquired { hold, claim, succession } = last;
            (self.held, self.claim, self.succession) = (Some(hold), Some(claim), succession);
        }
        self.claim.is_some()
    }

    fn error_unless_last(&mut self) -> Result<(), LockError> {
        match self.is_last() {
            true => Ok(()),
            false => Err(LockError::AlreadyAttached { name: self.name().clone() }),
        }
    }

    /// Ends the hold on this side. Returns false if the hold on the server stays: it belongs to the later guard of a
    /// lease that was attached again after a loss, or it is left to expire, so that it keeps others out.
    fn stop_holding(&mut self) -> bool {
        self.held = None;
        // C41: no request ends the hold before its span is over.
        let is_given_back = self.hold.is_own() && !self.hold.keeps_out();
        if !is_given_back && let Some(claim) = self.claim.take() {
            claim.hand_on();
        }
        is_given_back
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.claim.is_none() && self.joint.is_none() {
            return;
        }
        if !self.shared.process.is_this() {
            // The hold is that of the first process.
            let (held, claim) = (self.held.take(), self.claim.take());
            let (joint, next) = (self.joint.take(), self.succession.take());
            return std::mem::forget((held, claim, joint, next, self.shared.clone()));
        }
        // A shutdown waits for it. It is dropped after the claim, which is counted by itself from then on.
        let _in_flight = self.shared.janitor.begin();
        if !self.is_last() {
            return;
        }
        let lost_before = self.hold.lost_reason();
        if lost_before.is_none() && self.pass_on() {
            return;
        }
        self.stop_holding();
        let Some(mut claim) = self.claim.take() else { return };
        // C20: the janitor gives back; the drop itself sends nothing, inside or outside a runtime.
        if self.shared.has_runtime() {
            // The runtime that ran the tasks may have ended.
            self.shared.ensure_tasks();
        }
        claim.keep_for(self.hold.lease().kept_for());
        // After an eviction the server has nothing of ours. After a shutdown the hold was already given back.
        if matches!(lost_before, Some(LostReason::Evicted | LostReason::Shutdown)) {
            claim.ended();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LockClient, MemoryBackend};

    /// C47: a release beside a shutdown ends its own hold: otherwise it would be told a loss.
    #[tokio::test]
    async fn c47_a_shutdown_leaves_a_release_to_its_guard() {
        let store = MemoryBackend::new();
        let client = LockClient::new(store.clone());
        let guard = client.acquire("a").await.expect("a free lock");
        // The release has begun on another thread.
        guard.hold.end(LostReason::Released);
        client.shutdown().await;
        let held = LockClient::new(store).try_acquire("a").await.expect("an answer");
        assert!(held.is_none(), "the shutdown gave it back");
    }
}
