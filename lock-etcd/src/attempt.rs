//! One attempt to acquire: to take the lock, or a place in its queue, and to look again later.

use futures_util::future::join_all;
use lock_core::backend::{Attempt, Claim, Extension, Grant, WAITER_LIVENESS, WaiterHandle};
use lock_core::{BackendError, Contention, Outcome, OwnerId};

use crate::claims::{ClaimLeases, QueueEntry};
use crate::cluster::Cluster;
use crate::error::{classify, is_lease_gone, lease_gone, overtaken};
use crate::lease_id::{LeaseId, seconds};
use crate::leases::SpareLease;
use crate::renewal::Hold;
use crate::requests::{self, ClaimKeys, StoredClaim, View};

/// How long the server keeps a place in the queue that its waiter does not renew (C28). The server ends a
/// lease up to a second late, so that a waiter that died is gone within the bound.
const QUEUE_LEASE_SECONDS: i64 = WAITER_LIVENESS.as_secs() as i64 - 1;

impl Cluster {
    /// One attempt: a claim that has a place in the queue looks again, any other enters.
    pub(crate) async fn attempt(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let queue_entry = self.claims.queue_entry(claim.owner);
        if let (Some(waiter), Some(queue_entry)) = (waiter, queue_entry) {
            // Boxed, since it is large, and a first attempt does not need it.
            if let Some(attempt) = Box::pin(self.look_again(claim, queue_entry, waiter)).await? {
                return Ok(attempt);
            }
            self.leases.revoke_later(self.claims.lost(claim.owner, queue_entry.lease));
        }
        self.enter(claim, waiter).await
    }

    /// Takes the lock, or a place in its queue, or only looks.
    async fn enter(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let keys = ClaimKeys::new(&self.root, claim);
        let (leases, old) = self.leases_for(claim, waiter.is_some()).await?;
        let txn = requests::enter(&keys, &claim.label, leases);
        let request = self.server.send(|mut client| async move { client.txn(txn).await });
        let (answer, failed) = tokio::join!(request, self.keep_all_alive(claim.owner, old));
        let view = match answer {
            Ok(answer) => View::on_entering(&answer)?,
            Err(error) => return Err(self.refused(claim, error)),
        };
        self.claims.request_answered(claim.owner);
        let kept = leases.all().filter(|lease| !failed.contains(lease)).collect::<Vec<_>>();
        let is_kept = |entry: &StoredClaim| entry.lease.is_some_and(|lease| kept.contains(&lease));
        match (view.held(), waiter) {
            (Some(own), _) if view.taken && is_kept(own) => Ok(self.granted(claim, own)),
            // C16: an earlier request of this claim has taken the lock.
            (Some(own), _) => self.extend_found_hold(claim, own).await,
            (None, Some(waiter)) => self.begin_to_wait(claim, keys, waiter, view, &kept).await,
            (None, None) => Ok(self.busy(claim, view).await),
        }
    }

    /// This attempt took the lock.
    fn granted(&self, claim: &Claim, own: &StoredClaim) -> Attempt {
        self.waiters.forget(claim.owner);
        self.leases.give_back(self.claims.settled(claim.owner, own.lease));
        let ttl = own.lease.map(LeaseId::ttl).unwrap_or_default();
        Attempt::Granted(Grant::new(own.token, ttl))
    }

    /// Another has the lock, and this attempt wanted no place in the queue.
    async fn busy(&self, claim: &Claim, view: View) -> Attempt {
        if view.own.is_none() {
            self.leases.give_back(self.claims.settled(claim.owner, None));
        }
        Attempt::Busy(self.contention(view).await)
    }

    /// Notes the place in the queue, and watches the claim before it (C27).
    async fn begin_to_wait(
        &self,
        claim: &Claim,
        keys: ClaimKeys,
        waiter: &WaiterHandle,
        view: View,
        kept: &[LeaseId],
    ) -> Result<Attempt, BackendError> {
        let lost = || overtaken("the place in the queue was lost while it was taken");
        let own = view.own.as_ref().and_then(|own| Some((own.token, own.lease?)));
        let (token, lease) = own.filter(|(_, lease)| kept.contains(lease)).ok_or_else(lost)?;
        let queue_entry = QueueEntry { token, lease };
        self.leases.give_back(self.claims.queued(claim.owner, queue_entry));
        let Some(predecessor) = view.predecessor.clone() else {
            // The claim had its place before, and many came after it. Boxed, as this is rare.
            return Box::pin(self.look_again(claim, queue_entry, waiter)).await?.ok_or_else(lost);
        };
        self.waiters.wait(claim.owner, keys, queue_entry, waiter, predecessor, view.at);
        Ok(Attempt::Busy(self.contention(view).await))
    }

    /// Looks at the place in the queue, and renews it; `None` if it is lost.
    async fn look_again(
        &self,
        claim: &Claim,
        queue_entry: QueueEntry,
        waiter: &WaiterHandle,
    ) -> Result<Option<Attempt>, BackendError> {
        let keys = ClaimKeys::new(&self.root, claim);
        let look = self.server.txn(requests::look(&keys, queue_entry.token));
        let (seen, kept) = tokio::join!(look, self.leases.keep_alive(queue_entry.lease));
        let view = View::of(&seen?)?;
        let Some(own) = view.own.as_ref().filter(|own| own.token == queue_entry.token) else {
            return Ok(None);
        };
        if let Some(own) = view.held() {
            return self.extend_found_hold(claim, own).await.map(Some);
        }
        if own.lease != Some(queue_entry.lease) || !kept? {
            return Ok(None);
        }
        if let Some(predecessor) = view.predecessor.clone() {
            self.claims.queued(claim.owner, queue_entry);
            self.waiters.wait(claim.owner, keys, queue_entry, waiter, predecessor, view.at);
        }
        Ok(Some(Attempt::Busy(self.contention(view).await)))
    }

    /// The claim turns out to hold the lock already: lets it last for its whole TTL.
    async fn extend_found_hold(
        &self,
        claim: &Claim,
        own: &StoredClaim,
    ) -> Result<Attempt, BackendError> {
        self.waiters.forget(claim.owner);
        let extended = self.extend_batch(&[Hold::granted(claim, own.token)]).await.pop();
        match extended.unwrap_or(Ok(Extension::Lost))? {
            Extension::Extended(ttl) => Ok(Attempt::Granted(Grant::new(own.token, ttl))),
            Extension::Lost => Err(overtaken("the hold ended while it was found")),
        }
    }

    /// The leases for an attempt, noted before it is sent, and which of them are to be kept alive
    /// with it, since they were not granted for it.
    async fn leases_for(
        &self,
        claim: &Claim,
        waits: bool,
    ) -> Result<(ClaimLeases, Vec<LeaseId>), BackendError> {
        let known = self.claims.leases(claim.owner);
        let known = ClaimLeases { queue: known.queue.filter(|_| waits), ..known };
        let full = self.leases.take_if(known.full.is_none(), seconds(claim.ttl.as_duration()));
        let queue = self.leases.take_if(waits && known.queue.is_none(), QUEUE_LEASE_SECONDS);
        let (full, queue) = tokio::try_join!(full, queue)?;
        let leases = ClaimLeases {
            full: known.full.or(full.as_ref().map(SpareLease::id)),
            queue: known.queue.or(queue.as_ref().map(SpareLease::id)),
        };
        let taken: Vec<SpareLease<'_>> = full.into_iter().chain(queue).collect();
        let ids: Vec<LeaseId> = taken.iter().map(SpareLease::id).collect();
        self.claims.request_sent(claim.owner, leases, &ids)?;
        let mut old: Vec<LeaseId> = known.all().collect();
        for spare in taken {
            old.extend((!spare.is_new).then(|| spare.id()));
            spare.assign();
        }
        Ok((leases, old))
    }

    /// Keeps leases of a claim alive. Returns those that may be gone. No further request uses those that
    /// are gone for certain.
    async fn keep_all_alive(
        &self,
        owner: OwnerId,
        leases: impl IntoIterator<Item = LeaseId>,
    ) -> Vec<LeaseId> {
        let keep = leases.into_iter().map(async |lease| {
            let kept = self.leases.keep_alive(lease).await;
            if matches!(kept, Ok(false)) {
                self.leases.revoke_later(self.claims.lost(owner, lease));
            }
            (!kept.is_ok_and(|kept| kept)).then_some(lease)
        });
        join_all(keep).await.into_iter().flatten().collect()
    }

    /// Classifies the error of an attempt. One whose lease was gone was not carried out, and found no key
    /// of the claim.
    fn refused(&self, claim: &Claim, error: etcd_client::Error) -> BackendError {
        if is_lease_gone(&error) {
            self.claims.request_answered(claim.owner);
            self.leases.revoke_later(self.claims.starts_anew(claim.owner));
            return lease_gone();
        }
        let error = classify(error);
        if error.outcome() == Outcome::NotApplied {
            self.claims.request_answered(claim.owner);
        }
        error
    }

    /// What is known of a lock that another has.
    async fn contention(&self, view: View) -> Contention {
        let mut contention = Contention::unknown();
        contention.position = view.position;
        contention.at = Some(view.at);
        if let Some(holder) = view.first {
            contention.ttl_left = self.left(&holder).await;
            // C49: our own claims have a lease.
            contention.foreign_without_ttl = holder.lease.is_none();
            contention.holder = Some(holder.label);
        }
        contention
    }
}
