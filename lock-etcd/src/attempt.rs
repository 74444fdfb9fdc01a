//! One attempt to acquire: to take the lock, or a place in its queue, and to look again later.

use std::time::Duration;

use futures_util::future::try_join_all;
use lock_core::{Attempt, BackendError, Claim, Contention, Extension, Grant, Outcome, Waker};

use crate::claims::{ClaimLeases, Place};
use crate::error::{is_lease_gone, lease_gone, no_word, overtaken, sorted};
use crate::lease_id::{LeaseId, seconds};
use crate::lock::EtcdLock;
use crate::renewal::Hold;
use crate::requests::{self, ClaimKeys, Entry, View};

/// How long the server keeps a place in the queue that its waiter does not renew. A waiter looks at
/// least once a second, and one that died costs the others no more than 3 s: the server ends a lease
/// up to a second late.
const PLACE_SECONDS: i64 = 2;

impl EtcdLock {
    /// Takes the lock, or a place in its queue, or only looks.
    pub(crate) async fn enter(
        &self,
        claim: &Claim,
        waker: Option<&Waker>,
    ) -> Result<Attempt, BackendError> {
        let keys = ClaimKeys::new(&self.root, claim);
        let (leases, stale) = self.leases_for(claim, waker.is_some()).await?;
        let txn = requests::enter(&keys, &claim.label, leases);
        let ask = self.server.try_ask(|mut client| async move { client.txn(txn).await });
        let (answer, kept) =
            tokio::join!(ask, try_join_all(stale.into_iter().map(|id| self.leases.keep(id))));
        let view = match answer {
            Ok(answer) => View::on_entering(&answer)?,
            Err(error) => return Err(self.refused(claim, error)),
        };
        self.claims.answered(claim.owner);
        kept.map_err(|_| no_word("a lease in stock was not renewed"))?;
        self.settle(claim, keys, waker, leases, view).await
    }

    /// Finds out what came of an attempt.
    async fn settle(
        &self,
        claim: &Claim,
        keys: ClaimKeys,
        waker: Option<&Waker>,
        leases: ClaimLeases,
        view: View,
    ) -> Result<Attempt, BackendError> {
        match view.held() {
            Some(own) if own.lease.is_some() && own.lease == leases.full => {
                self.give_back_all(self.claims.settled(claim.owner, own.lease));
                self.waiters.forget(claim.owner);
                let ttl = leases.full.map_or(Duration::ZERO, LeaseId::ttl);
                return Ok(Attempt::Granted(Grant::new(own.token, ttl)));
            }
            Some(own) => return self.hold_on(claim, own).await,
            None => {}
        }
        if let Some(waker) = waker {
            self.begin_to_wait(claim, keys, waker, leases, &view)?;
        } else if view.own.is_none() {
            self.give_back_all(self.claims.settled(claim.owner, None));
        }
        Ok(Attempt::Busy(self.contention(view).await))
    }

    /// Notes the place in the queue, and watches whoever is before it.
    fn begin_to_wait(
        &self,
        claim: &Claim,
        keys: ClaimKeys,
        waker: &Waker,
        leases: ClaimLeases,
        view: &View,
    ) -> Result<(), BackendError> {
        let own = view.own.as_ref().filter(|own| own.lease == leases.queue);
        let place = own.and_then(|own| Some(Place { token: own.token, lease: own.lease? }));
        let (Some(place), Some(predecessor)) = (place, view.predecessor.clone()) else {
            return Err(overtaken("the place in the queue was lost while it was taken"));
        };
        self.give_back_all(self.claims.queued(claim.owner, place));
        self.waiters.wait(claim.owner, keys, place, waker, predecessor, view.at);
        Ok(())
    }

    /// Looks at the place in the queue, and renews it; `None` if it is lost.
    pub(crate) async fn look_again(
        &self,
        claim: &Claim,
        place: Place,
        waker: &Waker,
    ) -> Result<Option<Attempt>, BackendError> {
        let keys = ClaimKeys::new(&self.root, claim);
        let look = self.server.txn(requests::look(&keys, place.token));
        let (seen, kept) = tokio::join!(look, self.leases.keep(place.lease));
        let view = View::of(&seen?)?;
        let Some(own) = view.own.as_ref().filter(|own| own.token == place.token) else {
            return Ok(None);
        };
        if let Some(own) = view.held() {
            return self.hold_on(claim, own).await.map(Some);
        }
        if own.lease != Some(place.lease) {
            return Ok(None);
        }
        kept?;
        if let Some(predecessor) = view.predecessor.clone() {
            self.claims.queued(claim.owner, place);
            self.waiters.wait(claim.owner, keys, place, waker, predecessor, view.at);
        }
        Ok(Some(Attempt::Busy(self.contention(view).await)))
    }

    /// The claim turns out to hold the lock already: lets it last for its whole TTL.
    async fn hold_on(&self, claim: &Claim, own: &Entry) -> Result<Attempt, BackendError> {
        self.waiters.forget(claim.owner);
        let extended = self.extend_batch(&[Hold::granted(claim, own.token)]).await.pop();
        match extended.unwrap_or(Ok(Extension::Lost))? {
            Extension::Extended(ttl) => Ok(Attempt::Granted(Grant::new(own.token, ttl))),
            Extension::Lost => Err(overtaken("the hold ended while it was found")),
        }
    }

    /// The leases for an attempt, noted before it is sent; and which of them are to be kept alive
    /// with it, since they were not granted for it.
    async fn leases_for(
        &self,
        claim: &Claim,
        waits: bool,
    ) -> Result<(ClaimLeases, Vec<LeaseId>), BackendError> {
        let known = self.claims.leases(claim.owner)?;
        let full = self.leases.take_if(known.full.is_none(), seconds(claim.ttl.as_duration()));
        let queue = self.leases.take_if(waits && known.queue.is_none(), PLACE_SECONDS);
        let (mut full, mut queue) = tokio::try_join!(full, queue)?;
        let mut stale: Vec<LeaseId> = known.all().collect();
        let mut leases = known;
        for (taken, place) in [(&mut full, &mut leases.full), (&mut queue, &mut leases.queue)] {
            if let Some(spare) = taken {
                *place = Some(spare.id());
                stale.extend((!spare.is_new).then(|| spare.id()));
                spare.used();
            }
        }
        self.claims.asks(claim.owner, leases);
        Ok((leases, stale))
    }

    /// Sorts the error of an attempt. One whose lease was gone was not carried out.
    fn refused(&self, claim: &Claim, error: etcd_client::Error) -> BackendError {
        if is_lease_gone(&error) {
            self.claims.answered(claim.owner);
            self.claims.lost(claim.owner, |_| true);
            return lease_gone();
        }
        let error = sorted(error);
        if error.outcome() == Outcome::NotApplied {
            self.claims.answered(claim.owner);
            self.give_back_all(self.claims.settled(claim.owner, None));
        }
        error
    }

    pub(crate) fn give_back_all(&self, leases: impl IntoIterator<Item = LeaseId>) {
        leases.into_iter().for_each(|lease| self.leases.give_back(lease));
    }

    /// What is known of a lock that another has.
    async fn contention(&self, view: View) -> Contention {
        let mut contention = Contention::unknown();
        contention.position = view.position;
        contention.at = Some(view.at);
        if let Some(holder) = view.first {
            contention.ttl_left = self.left(&holder).await;
            contention.holder = Some(holder.label);
        }
        contention
    }
}
