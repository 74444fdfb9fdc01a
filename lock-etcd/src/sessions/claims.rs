//! This client's knowledge of its own claims: the session of each, and its end.
//!
//! A session lives as long as its client, with all its keys. So the client must end a claim that expires: each claim
//! has an end, which its attempts and renewals move. After that the [`Keeper`](crate::operations::keeper::Keeper)
//! deletes its key.

use std::collections::{HashMap, HashSet};
use std::process;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Claim, WAITER_LIVENESS};
use lock_core::{BackendError, Clock, Moment, Outcome, OwnerId, SystemClock, Ttl};
use parking_lot::{Mutex, MutexGuard};

use crate::layout::keys::Root;
use crate::layout::seats::Seats;
use crate::sessions::claimed::{Asked, Claimed, Deletion, Expired};
use crate::sessions::key_lease::{KeyLease, Stage, Unsettled};
use crate::sessions::pool::{SessionPool, whole};
use crate::sessions::session::Session;
use crate::wire::error::overtaken;
use crate::wire::server::Server;

/// The claims of one client, and its sessions.
pub(crate) struct Claims {
    server: Arc<Server>,
    root: Root,
    known: Mutex<Known>,
}

struct Known {
    process: u32,
    sessions: SessionPool,
    /// Leases of single keys, by their ids.
    unsettled: HashMap<i64, Unsettled>,
    claims: HashMap<OwnerId, Claimed>,
    seats: Seats,
}

impl Claims {
    pub(crate) fn new(server: Arc<Server>, root: Root) -> Self {
        Self { server, root, known: Mutex::default() }
    }

    /// Notes a claim, its session and its key before a request of it is sent. A place in a queue stays on its
    /// session, whatever its present TTL is.
    pub(crate) fn begin(&self, claim: &Claim) -> (Arc<Session>, Arc<str>) {
        let Claim { owner, ttl, .. } = *claim;
        // A waiter looks again within this span, however short its TTL is.
        let until = SystemClock.now().after(whole(ttl).max(WAITER_LIVENESS));
        let mut known = self.known();
        let on = known.claims.get(&owner).map(|claimed| claimed.session.clone());
        let session = on.filter(|on| !on.is_gone());
        let session = session.unwrap_or_else(|| known.sessions.for_ttl(&self.server, ttl));
        let Known { claims, seats, .. } = &mut *known;
        let claimed = claims.entry(owner).or_insert_with(|| {
            let key = seats.take(|seat| self.root.claim(&claim.name, seat));
            Claimed::new(key, whole(ttl), until, session.clone())
        });
        claimed.lasts_until(until);
        claimed.goes_to(&session);
        (session, claimed.key.clone())
    }

    /// Notes a hold of this revision before its renewal, and returns its session, which never ends before its present
    /// one (C10). `None` if nobody believed in the hold any more, and its deletion is in flight.
    pub(crate) fn renewing(
        &self,
        owner: OwnerId,
        ttl: Ttl,
        revision: i64,
        key: &Arc<str>,
    ) -> Result<Option<Arc<Session>>, BackendError> {
        let now = SystemClock.now();
        let until = now.after(whole(ttl));
        let mut known = self.known();
        match known.claims.get(&owner) {
            Some(claimed) if claimed.deletion != Deletion::NotDue => return Ok(None),
            None if known.seats.is_taken(key.as_bytes()) => {
                return Err(overtaken("its key was that of another claim a moment ago"));
            }
            _ => {}
        }
        let Known { claims, seats, sessions, .. } = &mut *known;
        let session = match claims.get(&owner).filter(|claimed| !claimed.session.is_gone()) {
            Some(Claimed { session: on, revision, .. }) => {
                sessions.for_renewal(&self.server, on, revision.is_some(), ttl, now)
            }
            None => sessions.for_ttl(&self.server, ttl),
        };
        let claimed = claims.entry(owner).or_insert_with(|| {
            seats.note(key.clone());
            Claimed::found(key.clone(), whole(ttl), until, revision, session.clone())
        });
        claimed.lasts_until(until);
        claimed.goes_to(&session);
        Ok(Some(session))
    }

    /// Notes that the key of a hold goes to a separate session, and lasts for `span`; returns the session.
    pub(crate) fn goes_to_a_longer(&self, owner: OwnerId, span: Duration) -> Arc<Session> {
        let until = SystemClock.now().after(span);
        let mut known = self.known();
        let session = known.sessions.separate(&self.server, span);
        if let Some(claimed) = known.claims.get_mut(&owner) {
            claimed.lasts_until(until);
            claimed.goes_to(&session);
        }
        session
    }

    /// Returns the key of a claim.
    pub(crate) fn key(&self, owner: OwnerId) -> Option<Arc<str>> {
        self.known().claims.get(&owner).map(|claimed| claimed.key.clone())
    }

    /// Notes that a request is about to be sent for a claim with this key. If the request comes late, it could change
    /// the key of a later claim.
    pub(crate) fn asks(&self, owner: OwnerId, key: &Arc<str>) -> Result<Asked, BackendError> {
        let mut known = self.known();
        let claimed = known.claims.get_mut(&owner).filter(|claimed| claimed.may_take_by(key));
        let over = || overtaken("the claim ended while it was asked for");
        claimed.map(|claimed| claimed.asks(owner)).ok_or_else(over)
    }

    /// Returns the key of a hold of this client on this lock, and the revision in which it was made.
    pub(crate) fn held(&self, owner: OwnerId, range: &str) -> Option<(Arc<str>, i64)> {
        let known = self.known();
        let claimed = known.claims.get(&owner)?;
        let is_meant = claimed.is_own && claimed.key.starts_with(range);
        claimed.revision.filter(|_| is_meant).map(|revision| (claimed.key.clone(), revision))
    }

    /// Notes that a request is about to be sent that ends a claim on this lock, if this client has made the claim. No
    /// other claim gets its key until it is forgotten.
    pub(crate) fn ends(&self, owner: OwnerId, range: &str) -> Option<Asked> {
        let mut known = self.known();
        let claimed = known.claims.get_mut(&owner)?;
        let is_meant = claimed.is_own && claimed.key.starts_with(range);
        is_meant.then(|| claimed.asks(owner))
    }

    /// Notes the answer to a request. A request without an answer may still come.
    pub(crate) fn answered<T>(&self, asked: &Asked, answer: &Result<T, BackendError>) {
        let is_over = |error: &BackendError| error.outcome() == Outcome::NotApplied;
        if answer.as_ref().err().is_none_or(is_over)
            && let Some(claimed) = self.known().claims.get_mut(&asked.owner)
            && Arc::ptr_eq(&claimed.key, &asked.key)
        {
            claimed.unanswered = claimed.unanswered.saturating_sub(1);
        }
    }

    /// Returns the remaining time of a session that may have the key of a claim; `None` if it is no session of this
    /// client.
    pub(crate) fn left_on(&self, owner: OwnerId, lease: i64) -> Option<Duration> {
        let known = self.known();
        let on = known.claims.get(&owner)?.sessions().find(|session| session.id() == lease)?;
        Some(on.left(SystemClock.now()))
    }

    /// Notes that the claim with this key holds the lock from now on. The value of an unclaimed hold, which came from
    /// its place, does not say so yet. Returns false if the claim is over, and begun anew with another key.
    pub(crate) fn holds(
        &self,
        owner: OwnerId,
        key: &Arc<str>,
        revision: i64,
        is_unclaimed: bool,
    ) -> bool {
        let mut known = self.known();
        let claimed = known.claims.get_mut(&owner).filter(|claimed| claimed.may_take_by(key));
        let Some(claimed) = claimed else { return false };
        let until = SystemClock.now().after(claimed.ttl);
        match claimed.revision {
            // C41: a place may last for longer than the hold that it becomes.
            None => claimed.until = until,
            Some(_) => claimed.lasts_until(until),
        }
        (claimed.revision, claimed.is_unclaimed) = (Some(revision), is_unclaimed);
        true
    }

    /// Notes that the key of a hold was seen on its session, with a value that says that it is held.
    pub(crate) fn settled(&self, owner: OwnerId) {
        if let Some(claimed) = self.known().claims.get_mut(&owner) {
            claimed.is_unclaimed = false;
            claimed.earlier.clear();
        }
    }

    /// Returns true if the value of a hold may not say yet that it is held.
    pub(crate) fn is_unclaimed(&self, owner: OwnerId) -> bool {
        self.known().claims.get(&owner).is_some_and(|claimed| claimed.is_unclaimed)
    }

    /// Notes that the server has nothing of the claim on this lock any more. Its key is reused, if no late request
    /// can change it.
    pub(crate) fn forget(&self, owner: OwnerId, range: &str) {
        let mut known = self.known();
        if known.claims.get(&owner).is_some_and(|claimed| claimed.key.starts_with(range)) {
            known.forget(owner);
        }
    }

    /// Notes that the claim is over. A late request may change its key, or the key may still exist.
    pub(crate) fn give_up(&self, owner: OwnerId) {
        self.known().give_up(owner);
    }

    /// Notes that the server had nothing of the claim at its answer. If an earlier request may still come, the claim
    /// stays known until it expires (C16).
    pub(crate) fn absent(&self, owner: OwnerId) {
        let mut known = self.known();
        if known.claims.get(&owner).is_some_and(|claimed| claimed.unanswered == 0) {
            known.forget(owner);
        }
    }

    /// Notes that the hold of this revision is gone. A later hold of the same owner is another one, and so is a
    /// waiting claim.
    pub(crate) fn lost(&self, owner: OwnerId, revision: i64) {
        let mut known = self.known();
        if known.claims.get(&owner).is_some_and(|claimed| claimed.was_made_in(revision)) {
            known.give_up(owner);
        }
    }

    /// Returns all sessions that are renewed, each with true if a claim needs it.
    pub(crate) fn sessions(&self) -> Vec<(Arc<Session>, bool)> {
        let known = self.known();
        let needed = known.needed();
        let session = |session: &Arc<Session>| (session.clone(), needed.contains(&session.id()));
        known.sessions.renewed().map(session).collect()
    }

    /// Returns true if there are sessions that nobody renews.
    pub(crate) fn has_unrenewed(&self) -> bool {
        self.known().sessions.has_unrenewed()
    }

    /// Removes the sessions without a claim: those that nobody renews, and those that `may_go`.
    pub(crate) fn take_unused(&self, may_go: impl Fn(&Session) -> bool) -> Vec<Arc<Session>> {
        let mut known = self.known();
        let needed = known.needed();
        known.sessions.take_unused(&needed, may_go)
    }

    /// Takes back a session that could not be ended. It is not renewed any more.
    pub(crate) fn put_back(&self, session: Arc<Session>) {
        self.known().sessions.put_back(session);
    }

    /// Notes a lease for one key.
    pub(crate) fn note_lease(&self, id: i64, unsettled: Unsettled) {
        self.known().unsettled.insert(id, unsettled);
    }

    /// Notes that a lease is settled.
    pub(crate) fn forget_lease(&self, id: i64) {
        self.known().unsettled.remove(&id);
    }

    /// Notes that nobody settles a lease, if it is not settled.
    pub(crate) fn leave_lease(&self, id: i64) {
        if let Some(unsettled) = self.known().unsettled.get_mut(&id) {
            unsettled.stage = Stage::Left;
        }
    }

    /// Returns the leases to end that are in these stages. While a claim is known, a late request of it may put the key
    /// on the lease.
    pub(crate) fn take_unsettled(self: &Arc<Self>, stages: &[Stage]) -> Vec<KeyLease> {
        let mut known = self.known();
        let Known { unsettled, claims, .. } = &mut *known;
        let is_taken = |lease: &Unsettled| {
            let is_unclaimed = lease.owner.is_none_or(|owner| !claims.contains_key(&owner));
            is_unclaimed && stages.contains(&lease.stage)
        };
        let taken = unsettled.iter_mut().filter(|(_, lease)| is_taken(lease));
        let taken = taken.map(|(id, lease)| {
            lease.stage = Stage::Ending;
            KeyLease::of(self, *id, lease.key.clone())
        });
        taken.collect()
    }

    /// Returns the claims in which nobody believes any more. They stay noted until they are
    /// [forgotten](Self::forget).
    pub(crate) fn expired(&self, now: Moment) -> Vec<Expired> {
        let mut known = self.known();
        let expired = known.claims.iter_mut().filter(|(_, claimed)| claimed.is_to_be_deleted(now));
        expired.map(|(owner, claimed)| claimed.expired(*owner)).collect()
    }

    /// Notes that no deletion in flight will be answered.
    pub(crate) fn no_deletion_is_sent(&self) {
        self.known().claims.values_mut().for_each(Claimed::deletion_has_no_answer);
    }

    /// Notes that the deletion of a claim's key may have failed: it is tried again.
    pub(crate) fn not_ended(&self, asked: &Asked) {
        let mut known = self.known();
        let claimed = known.claims.get_mut(&asked.owner);
        if let Some(claimed) = claimed.filter(|claimed| Arc::ptr_eq(&claimed.key, &asked.key)) {
            claimed.deletion_has_no_answer();
        }
    }

    /// Returns the keys of `keys` that belong to none of our claims.
    pub(crate) fn unknown<'a>(&self, keys: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<Vec<u8>> {
        let known = self.known();
        keys.into_iter().filter(|key| !known.seats.is_taken(key)).cloned().collect()
    }

    /// Returns true if there is nothing to look after.
    pub(crate) fn is_empty(&self) -> bool {
        let known = self.known();
        known.sessions.is_empty() && known.unsettled.is_empty() && known.claims.is_empty()
    }

    /// After a fork the new process knows nothing: claims, sessions and keys belong to the first one.
    fn known(&self) -> MutexGuard<'_, Known> {
        let mut known = self.known.lock();
        if known.process != process::id() {
            *known = Known::default();
        }
        known
    }
}

impl Default for Known {
    fn default() -> Self {
        let (sessions, unsettled, claims, seats) = Default::default();
        Self { process: process::id(), sessions, unsettled, claims, seats }
    }
}

impl Known {
    fn forget(&mut self, owner: OwnerId) {
        match self.claims.remove(&owner) {
            Some(Claimed { key, unanswered: 0, .. }) => self.seats.free(&key),
            Some(Claimed { key, .. }) => self.seats.give_up(&key),
            None => {}
        }
    }

    /// Notes that a claim is over. A late request may change its key.
    fn give_up(&mut self, owner: OwnerId) {
        if let Some(Claimed { key, .. }) = self.claims.remove(&owner) {
            self.seats.give_up(&key);
        }
    }

    /// Returns the ids of the sessions that claims need.
    fn needed(&self) -> HashSet<i64> {
        self.claims.values().flat_map(Claimed::sessions).map(|session| session.id()).collect()
    }
}

#[cfg(test)]
mod tests;
