//! Ends of a hold: the release, the pass to the next task, the detachment, the drop.

use super::LockGuard;
use crate::backend::{Release, Reserved};
use crate::engine::{Acquired, OwnedClaim, Succession, is_worth_passing};
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
        // A shutdown waits until this is dropped.
        let _in_flight = self.shared.janitor.begin();
        let Ok(own) = self.take_own() else { return Ok(()) };
        let passes = self.may_pass(&own);
        match self.end(own, passes).await {
            // Once the lease has expired, "not held" may be a normal end.
            Ok(Release::NotHeld) if !self.shared.store.has_expired(&self.hold.lease()) => {
                // A shutdown may have been first.
                let told = self.hold.lost_reason().filter(|reason| *reason == LostReason::Shutdown);
                Err(self.hold.lost_error(told.unwrap_or(LostReason::Evicted)))
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
        self.shared.store.refuse_in_fork("release", Some(self.name()))?;
        let _in_flight = self.shared.janitor.begin();
        let own = self.take_own()?;
        self.end(own, false).await
    }

    /// Ends the hold on the server. If it `passes`, it may go on to the next task of this client instead, under a token
    /// that is reserved for it.
    async fn end(&self, own: Acquired, passes: bool) -> Result<Release, LockError> {
        let (mut claim, next) = match self.stop_holding(own, passes) {
            Ok(left) => left,
            Err(ended) => return Ok(ended),
        };
        let lease = self.hold.lease();
        let awaited = next.as_ref().filter(|next| passes && next.is_awaited());
        let reservation = awaited.and_then(|next| next.reservation(&lease));
        let yields = reservation.as_ref().is_some_and(|asked| asked.yields);
        match (claim.release(&lease, reservation).await?, next) {
            (Reserved::Ended(release), _) => return Ok(release),
            (Reserved::Tokens(tokens), Some(next)) => {
                // If no task takes the hold, the drop of its claim releases it.
                drop(next.reserved(tokens, yields).pass(lease, claim));
                self.shared.passed_on();
            }
            (Reserved::Tokens(_), None) => {}
        }
        Ok(Release::Released)
    }

    /// Ends the hold on this side (C11). If it `passes`, it goes on to the next task of this client, if there is one, and a
    /// token for it. Returns what is left to give back, and the rest of the line.
    ///
    /// Nothing is left if the hold has passed on, or stays on the server: it belongs to the later guard of a lease that
    /// was attached again after a loss, or it is left to expire, so that it keeps others out.
    fn stop_holding(
        &self,
        own: Acquired,
        passes: bool,
    ) -> Result<(OwnedClaim, Option<Succession>), Release> {
        // The runtime that ran the janitor may have ended.
        self.shared.ensure_tasks();
        let (lease, keeps_out) = (self.hold.lease(), self.hold.keeps_out());
        let Acquired { hold, mut claim, succession } = own;
        drop(hold);
        claim.keep_for(lease.kept_for());
        // C41: no request ends the hold before its span is over.
        if !self.hold.is_own() || keeps_out {
            claim.hand_on();
            return Err(if keeps_out { Release::Released } else { Release::NotHeld });
        }
        match succession {
            Some(next) if passes && next.has_next() => {
                let left = next.pass(lease, claim);
                self.shared.passed_on();
                left.map_or_else(|claim| Ok((claim, None)), |()| Err(Release::Released))
            }
            next => Ok((claim, next)),
        }
    }

    /// Returns true if the hold can pass to another task: its state is certain, and enough time is left.
    fn may_pass(&self, own: &Acquired) -> bool {
        let store = &self.shared.store;
        own.claim.is_held()
            && is_worth_passing(&self.hold.lease(), store.options.drift, store.now())
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
        let Acquired { hold, claim, .. } = self.take_own()?;
        drop(hold);
        self.hold.supersede();
        let mut lease = self.hold.lease();
        lease.bound = self.hold.bound().map(Box::new);
        lease.unresolved = claim.hand_on();
        Ok(lease)
    }

    /// Takes the hold, which this guard alone ends, unless another guard shares the hold, or the hold has ended.
    fn take_own(&mut self) -> Result<Acquired, LockError> {
        let joint_holds = &self.shared.joint_holds;
        // C43: the last guard of a hold gives it back.
        let last = self.joint.take().and_then(|(by, joint)| joint_holds.last(&by, joint));
        let shared = || LockError::AlreadyAttached { name: self.hold.name.clone() };
        last.or_else(|| self.own.take()).ok_or_else(shared)
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.own.is_none() && self.joint.is_none() {
            return;
        }
        if !self.shared.store.process.is_this() {
            // The hold is that of the first process.
            return std::mem::forget((self.own.take(), self.joint.take(), self.shared.clone()));
        }
        // A shutdown waits for it. It is dropped after the claim, which is counted by itself from then on.
        let _in_flight = self.shared.janitor.begin();
        let Ok(own) = self.take_own() else { return };
        let lost_before = self.hold.lost_reason();
        let passes = lost_before.is_none() && self.may_pass(&own);
        let Ok((mut claim, next)) = self.stop_holding(own, passes) else { return };
        // After an eviction the server has nothing of ours. After a shutdown the hold was already given back.
        if matches!(lost_before, Some(LostReason::Evicted | LostReason::Shutdown)) {
            claim.ended();
        }
        // C20: the janitor gives back; the drop itself sends nothing, inside or outside a runtime.
        drop((claim, next));
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
