//! One attempt to acquire: to take the lock, or a place in its queue, and to look again later.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::backend::{Attempt, Claim, Extension, Grant, WaiterHandle};
use lock_core::{BackendError, Clock, Contention, FencingToken, Moment, SystemClock};

use crate::cluster::Cluster;
use crate::error::{overtaken, says_lease_gone};
use crate::requests::{self, ClaimKeys};
use crate::session::Session;
use crate::view::{Entered, StoredClaim, View, entered, entries, server_time};
use crate::waiters::Place;

/// How long the session of a place in a queue is to last when the place is looked at: until the next look.
const PLACE_LASTS: Duration = Duration::from_millis(1200);

/// An attempt under way.
struct Try<'a> {
    claim: &'a Claim,
    keys: ClaimKeys,
    /// Before its first request was sent.
    asked: Moment,
    hold: Arc<Session>,
}

impl Cluster {
    /// One attempt: a claim that has a place in the queue looks again, any other enters.
    pub(crate) async fn attempt(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let (asked, hold) = (SystemClock.now(), self.claims.begin(claim));
        self.keeper.ensure_running();
        let this = Try { claim, keys: ClaimKeys::new(&self.root, claim), asked, hold };
        if let (Some(_), Some(place)) = (waiter, self.waiters.place(claim.owner)) {
            // Boxed, since a first attempt does not need it.
            if let Some(attempt) = Box::pin(self.poll(&this, &place)).await? {
                return Ok(attempt);
            }
            self.waiters.forget(claim.owner);
        }
        self.enter(&this, waiter).await
    }

    /// Takes the lock, or a place in its queue, or only looks. A client that has not waited for a while
    /// asks for the session of its place once it is needed, and enters again.
    async fn enter(
        &self,
        this: &Try<'_>,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let owner = this.claim.owner;
        this.hold.last_for(this.claim.ttl.as_duration()).await?;
        let mut place = waiter.and_then(|_| self.claims.open_queue(owner));
        loop {
            if let Some(session) = &place {
                session.last_for(PLACE_LASTS).await?;
            }
            let view = match self.ask_to_enter(this, place.as_ref()).await? {
                Entered::Taken(token) => return Ok(self.taken(this, token)),
                Entered::Seen(view) => view,
            };
            match (view.held(), waiter) {
                // C16: an earlier request of this claim has taken the lock.
                (Some(own), _) => return self.found_held(this, own).await,
                (None, Some(waiter)) if view.own.is_some() => {
                    // The place may be one of an earlier request.
                    let session = place.unwrap_or_else(|| self.claims.queue(owner));
                    return self.begin_to_wait(this, session, waiter, view).await;
                }
                (None, Some(_)) if place.is_none() => place = Some(self.claims.queue(owner)),
                (None, Some(_)) => return Err(overtaken("the place in the queue was not taken")),
                (None, None) => return Ok(self.busy(this, &view).await),
            }
        }
    }

    async fn ask_to_enter(
        &self,
        this: &Try<'_>,
        place: Option<&Arc<Session>>,
    ) -> Result<Entered, BackendError> {
        let place_id = place.map(|session| session.id());
        let txn = requests::enter(&this.keys, &this.claim.label, this.hold.id(), place_id);
        match self.server.txn(txn).await {
            Ok(answer) => entered(&answer),
            Err(error) => {
                if says_lease_gone(&error) {
                    // Which one? The next try takes another for that one.
                    let sessions = [Some(&this.hold), place].into_iter().flatten();
                    join_all(sessions.map(|session| session.keep_alive())).await;
                }
                Err(error)
            }
        }
    }

    /// This attempt took the lock.
    fn taken(&self, this: &Try<'_>, token: FencingToken) -> Attempt {
        self.waiters.forget(this.claim.owner);
        self.claims.granted(this.claim.owner, token);
        self.claims.settled(this.claim.owner, token);
        Attempt::Granted(Grant::new(token, this.hold.left(this.asked)))
    }

    /// Another has the lock, and this attempt wanted no place in the queue.
    async fn busy(&self, this: &Try<'_>, view: &View) -> Attempt {
        if view.own.is_none() {
            self.claims.forget(this.claim.owner);
        }
        let mut contention = Contention::unknown();
        contention.at = Some(view.at);
        if let Some(holder) = &view.first {
            contention.ttl_left = self.left(holder.lease).await;
            // C49: our own claims have a lease.
            contention.foreign_without_ttl = holder.lease == 0;
            contention.holder = Some(holder.label.clone());
        }
        Attempt::Busy(contention)
    }

    /// Notes the place in the queue, and watches the claims before it (C27).
    async fn begin_to_wait(
        &self,
        this: &Try<'_>,
        session: Arc<Session>,
        waiter: &WaiterHandle,
        view: View,
    ) -> Result<Attempt, BackendError> {
        let lost = || overtaken("the place in the queue was lost while it was taken");
        let own = view.own.as_ref().ok_or_else(lost)?;
        let Some(ahead) = view.ahead else {
            // The claim had its place before, and many came after it.
            let txn = requests::look(&this.keys, own.token);
            let view = View::of(&self.server.txn(txn).await?)?;
            return match view.ahead.is_some() && view.held().is_none() {
                true => Box::pin(self.begin_to_wait(this, session, waiter, view)).await,
                false => Err(lost()),
            };
        };
        let holder_lease = view.first.as_ref().map(|first| first.lease);
        let place = Place {
            owner: this.claim.owner,
            keys: this.keys.clone(),
            token: own.token,
            session,
            // C49: our own claims have a lease.
            behind_foreign_key: view.first.as_ref().is_some_and(|first| first.lease == 0),
            holder: view.first.map(|first| first.label),
            ahead: Mutex::new(ahead),
            answered: Mutex::new((this.asked, view.at)),
        };
        let mut contention = place.contention();
        self.claims.waits(this.claim.owner);
        self.waiters.wait(place, waiter.clone());
        // The claim waits by now, so that this question delays no hand-over but one of this moment.
        if let Some(lease) = holder_lease {
            contention.ttl_left = self.left(lease).await;
        }
        Ok(Attempt::Busy(contention))
    }

    /// Looks whether the place in the queue is still there, and the claim before it: two keys, however
    /// long the queue is. `None` if the place is lost, or is the first.
    async fn poll(&self, this: &Try<'_>, place: &Place) -> Result<Option<Attempt>, BackendError> {
        place.session.last_for(PLACE_LASTS).await?;
        let before = place.ahead().keys.first().cloned();
        let keys = [Some(place.keys.own.clone().into_bytes()), before].into_iter().flatten();
        let answer = self.server.txn(requests::read(keys)).await?;
        let found = entries(&answer)?;
        let is_there = |entry: Option<&Option<StoredClaim>>,
                        matches: &dyn Fn(FencingToken) -> bool| {
            entry.and_then(Option::as_ref).is_some_and(|entry| matches(entry.token))
        };
        let own_is_there = is_there(found.first(), &|token| token == place.token);
        if !own_is_there || !is_there(found.get(1), &|token| token < place.token) {
            return Ok(None);
        }
        *place.answered() = (this.asked, server_time(&answer)?);
        self.claims.waits(this.claim.owner);
        Ok(Some(Attempt::Busy(place.contention())))
    }

    /// The claim turns out to hold the lock already: lets it last for its whole TTL.
    async fn found_held(&self, this: &Try<'_>, own: &StoredClaim) -> Result<Attempt, BackendError> {
        let owner = this.claim.owner;
        self.waiters.forget(owner);
        let key = &this.keys.own;
        match self.settle(key, owner, own.token, own.lease, &this.hold).await? {
            Extension::Extended(_) => {
                self.claims.granted(owner, own.token);
                let ttl = this.hold.left(this.asked);
                Ok(Attempt::Granted(Grant::new(own.token, ttl)))
            }
            Extension::Lost => Err(overtaken("the hold ended while it was found")),
        }
    }
}
