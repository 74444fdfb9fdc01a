//! The claims of this client.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{FALLBACK_POLL, WAITER_LIVENESS};
use lock_core::{
    BackendError, Clock, Contention, FencingToken, LockName, Moment, OwnerId, Slots, SystemClock,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinHandle;

use crate::error::overtaken;
use crate::places::Place;

/// A claim of this client: held, waiting, or requested.
pub(crate) struct Own {
    pub(crate) name: LockName,
    /// Sessions that its node may be on: more than one while the outcome of a move is unknown. A hold has one.
    pub(crate) sessions: Vec<Arc<Place>>,
    /// `None` until the server has confirmed the node: before the answer to the claim, and while the node moves to
    /// another session.
    pub(crate) node: Option<Node>,
    pub(crate) is_held: bool,
    /// The token of its grant, once that was returned.
    told: Option<FencingToken>,
    /// End of the claim. Its session goes on then, so the client itself deletes the node.
    pub(crate) until: Moment,
    /// True once it was not renewed in time: its node is being deleted. Until that is done the claim takes nothing.
    pub(crate) is_over: bool,
    waiting: Option<Waiting>,
}

/// The node of a claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) path: String,
    /// The server's number of writes to the node when we last read or wrote it.
    pub(crate) version: i32,
    /// `None` while it waits.
    pub(crate) token: Option<FencingToken>,
    /// Slots of a hold of permits.
    pub(crate) slots: Slots,
}

/// A claim that was not renewed in time. See [`Own`].
pub(crate) struct Expired {
    pub(crate) owner: OwnerId,
    pub(crate) name: LockName,
    pub(crate) node: Option<Node>,
    pub(crate) sessions: Vec<Arc<Place>>,
}

/// The task that wakes a waiter, and the last time at which its place was seen.
struct Waiting {
    task: JoinHandle<()>,
    seen: Moment,
    contention: Contention,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The claims of this client, by their owners.
#[derive(Default)]
pub(crate) struct Claims(Mutex<HashMap<OwnerId, Own>>);

impl Claims {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<OwnerId, Own>> {
        self.0.lock()
    }

    /// Notes that a request for the claim, or for its move, is about to be sent on `session`. The claim lasts for this
    /// long at least, and the path of its node is unknown until the answer, which may never come.
    pub(crate) fn asked(
        &self,
        name: &LockName,
        owner: OwnerId,
        session: &Arc<Place>,
        lasts: Duration,
    ) -> Result<(), BackendError> {
        let (until, mut claims) = (SystemClock.now().after(lasts), self.lock());
        let own = claims.entry(owner).or_insert_with(|| Own {
            name: name.clone(),
            sessions: Vec::new(),
            node: None,
            is_held: false,
            told: None,
            until,
            is_over: false,
            waiting: None,
        });
        if own.is_over {
            return Err(over());
        }
        let is_same = |known: &Place| known.session_number() == session.session_number();
        own.sessions.retain(|known| !known.is_over() && !is_same(known));
        own.sessions.push(session.clone());
        (own.node, own.is_held, own.waiting) = (None, false, None);
        own.last_until(until);
        Ok(())
    }

    /// Notes that the claim holds the lock by this node on `session`. Fails if the claim is over: the node may have
    /// been deleted since the server answered (S3).
    pub(crate) fn held(
        &self,
        owner: OwnerId,
        session: &Arc<Place>,
        node: Node,
        ttl: Duration,
    ) -> Result<(), BackendError> {
        let mut claims = self.lock();
        let own = claims.get_mut(&owner).filter(|own| !own.is_over).ok_or_else(over)?;
        let until = SystemClock.now().after(ttl);
        match own.told {
            // C41: a place may last for longer than the hold that it becomes.
            None => own.until = until,
            Some(_) => own.last_until(until),
        }
        own.told = node.token;
        (own.node, own.sessions, own.is_held) = (Some(node), vec![session.clone()], true);
        Ok(())
    }

    /// Notes that the claim waits, and that `task` wakes it.
    pub(crate) fn waits(
        &self,
        owner: OwnerId,
        node: Node,
        task: JoinHandle<()>,
        contention: &Contention,
    ) {
        let (seen, contention) = (SystemClock.now(), contention.clone());
        let waiting = Waiting { task, seen, contention };
        if let Some(own) = self.lock().get_mut(&owner) {
            (own.node, own.waiting) = (Some(node), Some(waiting));
        }
    }

    /// Notes that the waiter's place was seen.
    pub(crate) fn seen(&self, owner: OwnerId) {
        if let Some(waiting) = self.lock().get_mut(&owner).and_then(|own| own.waiting.as_mut()) {
            waiting.seen = SystemClock.now();
        }
    }

    /// Extends the place of a waiter. Returns the last answer if the place was seen within the last second and its
    /// task runs.
    pub(crate) fn waiting(&self, owner: OwnerId, ttl: Duration) -> Option<Contention> {
        let (mut claims, now) = (self.lock(), SystemClock.now());
        let own = claims.get_mut(&owner).filter(|own| !own.is_held && !own.is_over)?;
        own.last_until(now.after(ttl.max(WAITER_LIVENESS)));
        let waiting = own.waiting.as_ref()?;
        let is_fresh = !waiting.task.is_finished() && now.since(waiting.seen) < FALLBACK_POLL;
        is_fresh.then(|| waiting.contention.clone())
    }

    /// Returns the session of a claim.
    pub(crate) fn session(&self, owner: OwnerId) -> Option<Arc<Place>> {
        self.lock().get(&owner)?.sessions.iter().find(|session| !session.is_over()).cloned()
    }

    /// Returns the node of a claim, if it holds its lock.
    pub(crate) fn held_node(&self, owner: OwnerId) -> Option<Node> {
        self.lock().get(&owner).filter(|own| own.is_held)?.node.clone()
    }

    /// Returns the token of a claim's grant, if that was returned.
    pub(crate) fn told(&self, owner: OwnerId) -> Option<FencingToken> {
        self.lock().get(&owner)?.told
    }

    /// Returns true if the claim's node is no more, or not for sure, the one at this path.
    pub(crate) fn moves_from(&self, owner: OwnerId, path: &str) -> bool {
        let claims = self.lock();
        claims.get(&owner).is_some_and(|own| own.node.as_ref().is_none_or(|node| node.path != path))
    }

    /// Returns the remaining time of this client's hold.
    pub(crate) fn left(&self, owner: OwnerId) -> Option<Duration> {
        let claims = self.lock();
        claims.get(&owner).map(|own| SystemClock.now().until(own.until))
    }

    /// Forgets a claim that has ended. The deletion of an expired one may still be in flight, so that one stays.
    pub(crate) fn forget(&self, owner: OwnerId) {
        let mut claims = self.lock();
        if claims.get(&owner).is_some_and(|own| !own.is_over) {
            claims.remove(&owner);
        }
    }

    /// Returns the claims that were not renewed in time, and marks them as over.
    pub(crate) fn expired(&self) -> Vec<Expired> {
        let (now, mut expired) = (SystemClock.now(), Vec::new());
        for (owner, own) in &mut *self.lock() {
            if own.is_over || now.has_reached(own.until) {
                own.is_over = true;
                let (name, sessions) = (own.name.clone(), own.sessions.clone());
                expired.push(Expired { owner: *owner, name, node: own.node.clone(), sessions });
            }
        }
        expired
    }

    /// Notes that the node of an expired claim is gone.
    pub(crate) fn ended(&self, owner: OwnerId) {
        let mut claims = self.lock();
        if claims.get(&owner).is_some_and(|own| own.is_over) {
            claims.remove(&owner);
        }
    }

    /// Returns true if the claim has expired.
    pub(crate) fn is_over(&self, owner: OwnerId) -> bool {
        self.lock().get(&owner).is_some_and(|own| own.is_over)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}

impl Own {
    /// Extends the claim until this time at least.
    pub(crate) fn last_until(&mut self, until: Moment) {
        if until.has_reached(self.until) {
            self.until = until;
        }
    }
}

fn over() -> BackendError {
    overtaken("the claim has expired")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S3: the node of an expired claim is being deleted, so nobody may believe in that node.
    #[tokio::test]
    async fn s3_a_claim_that_has_expired_takes_nothing() {
        let (claims, session) = (Claims::default(), Place::mute().await);
        let (name, owner) = (LockName::new("a").expect("a name"), OwnerId::random());
        let asked = |lasts| claims.asked(&name, owner, &session, lasts);
        let (path, token) = ("/a".to_owned(), FencingToken::new(7).ok());
        let node = Node { path, version: 0, token, slots: Slots::NONE };
        let held = || claims.held(owner, &session, node.clone(), Duration::from_secs(60));
        asked(Duration::ZERO).expect("a new claim");
        assert_eq!(claims.expired().len(), 1);
        assert!(held().is_err(), "a grant that was found before");
        assert!(asked(Duration::from_secs(60)).is_err(), "a repeat");
        assert_eq!(claims.waiting(owner, Duration::from_secs(60)).map(|_| ()), None);
        claims.forget(owner);
        assert_eq!(claims.expired().len(), 1, "its deletion is not forgotten");
        claims.ended(owner);
        assert!(claims.is_empty());
        assert!(held().is_err(), "a grant that was found before the end");
        asked(Duration::from_secs(60)).expect("another claim");
        held().expect("its grant");
        assert_eq!(claims.held_node(owner), Some(node.clone()));
    }

    /// C4, C41: a place lasts for the bound of waiters at least, and the hold that comes from it for its own TTL.
    #[tokio::test]
    async fn c04_a_hold_with_a_short_ttl_ends_at_its_end() {
        let (claims, session) = (Claims::default(), Place::mute().await);
        let (name, owner) = (LockName::new("a").expect("a name"), OwnerId::random());
        claims.asked(&name, owner, &session, WAITER_LIVENESS).expect("a new claim");
        let token = FencingToken::new(7).ok();
        let node = Node { path: "/a".to_owned(), version: 0, token, slots: Slots::NONE };
        assert!(claims.expired().is_empty());
        claims.held(owner, &session, node, Duration::ZERO).expect("its grant");
        assert_eq!(claims.expired().len(), 1);
    }
}
