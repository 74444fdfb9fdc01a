//! What this client knows of its own claims: the session each hangs on, and until when it lasts.
//!
//! A session lives for as long as its client does, and with it all keys on it. So a claim that ends by
//! itself has to be ended by the client: each has a moment of its own, which its attempts and renewals
//! move. After that its key is deleted ([`Keeper`](crate::keeper::Keeper)).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::backend::{Claim, Renewal, WAITER_LIVENESS};
use lock_core::{Clock, FencingToken, LockName, Moment, OwnerId, SystemClock, Ttl};

use crate::keys::Root;
use crate::server::Server;
use crate::session::Session;

/// The lease of places in queues (C28). The server ends a lease up to a second late, so that a waiter that
/// died is gone within the bound.
const QUEUE_SECONDS: i64 = WAITER_LIVENESS.as_secs() as i64 - 1;

/// A session's lease is longer than the TTL of its claims by so much. So a claim finds its whole TTL on the
/// session, although the session was not renewed at that very moment.
const MARGIN_SECONDS: i64 = 2;

/// The claims of one client, and its sessions.
pub(crate) struct Claims {
    server: Arc<Server>,
    root: Root,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// By the seconds of their leases.
    sessions: HashMap<i64, Arc<Session>>,
    claims: HashMap<OwnerId, Claimed>,
    /// The owners whose holds outlast their work, until those end (C41).
    retired: HashMap<OwnerId, Moment>,
}

/// One claim, from before its first request until it is over.
struct Claimed {
    key: String,
    ttl: Duration,
    /// Nobody believes in it any more from then on.
    until: Moment,
    token: Option<FencingToken>,
    /// Where its key is, or goes with its next renewal, once it holds.
    hold: Arc<Session>,
    /// Where its key is while it waits.
    place: Option<Arc<Session>>,
}

/// Why a session is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Need {
    /// Keys of claims are on it, or may be.
    Now,
    /// All its claims wait. Their keys move to it when they hold.
    Later,
}

/// A claim that nobody believes in any more.
pub(crate) struct Expired {
    pub(crate) owner: OwnerId,
    pub(crate) key: String,
    pub(crate) sessions: Vec<Arc<Session>>,
}

impl Claims {
    pub(crate) fn new(server: Arc<Server>, root: Root) -> Self {
        Self { server, root, known: Mutex::default() }
    }

    /// Notes a claim before a request of it is sent: the session for its hold.
    pub(crate) fn begin(&self, claim: &Claim) -> Arc<Session> {
        let lasts = whole(claim.ttl).max(WAITER_LIVENESS);
        self.note(&claim.name, claim.owner, claim.ttl, lasts)
    }

    /// Notes a hold before it is renewed: the session that it is to be on. It is never a shorter one than
    /// the one it is on (C10).
    pub(crate) fn renewing(&self, renewal: &Renewal) -> Arc<Session> {
        self.note(&renewal.name, renewal.owner, renewal.ttl, whole(renewal.ttl))
    }

    fn note(&self, name: &LockName, owner: OwnerId, ttl: Ttl, lasts: Duration) -> Arc<Session> {
        let (now, seconds) = (SystemClock.now(), seconds(ttl) + MARGIN_SECONDS);
        let mut known = self.known();
        let on = known.claims.get(&owner).map(|claimed| claimed.hold.clone());
        let enough = on.filter(|on| on.ttl().as_secs() >= seconds.unsigned_abs() && !on.is_gone());
        let hold = enough.unwrap_or_else(|| known.session(&self.server, seconds));
        let until = now.after(lasts);
        let claimed = known.claims.entry(owner).or_insert_with(|| Claimed {
            key: self.root.claim(name, owner),
            ttl: whole(ttl),
            until,
            token: None,
            hold: hold.clone(),
            place: None,
        });
        claimed.lasts_until(until);
        claimed.hold = hold.clone();
        hold
    }

    /// The session for the place of a claim in a queue, if it is open already.
    pub(crate) fn open_queue(&self, owner: OwnerId) -> Option<Arc<Session>> {
        let open = self.known().sessions.get(&QUEUE_SECONDS).is_some_and(|queue| queue.is_open());
        open.then(|| self.queue(owner))
    }

    /// The session for the place of a claim in a queue.
    pub(crate) fn queue(&self, owner: OwnerId) -> Arc<Session> {
        let mut known = self.known();
        let queue = known.session(&self.server, QUEUE_SECONDS);
        if let Some(claimed) = known.claims.get_mut(&owner) {
            claimed.place = Some(queue.clone());
        }
        queue
    }

    /// The claim waits: without another look it lasts no longer than a waiter that died.
    pub(crate) fn waits(&self, owner: OwnerId) {
        if let Some(claimed) = self.known().claims.get_mut(&owner) {
            claimed.until = SystemClock.now().after(WAITER_LIVENESS);
        }
    }

    /// The claim holds the lock from now on, on the queue's session if it came through the queue.
    pub(crate) fn granted(&self, owner: OwnerId, token: FencingToken) {
        if let Some(claimed) = self.known().claims.get_mut(&owner) {
            claimed.token = Some(token);
            claimed.lasts_until(SystemClock.now().after(claimed.ttl));
        }
    }

    /// The key of the hold is on the session for holds.
    pub(crate) fn settled(&self, owner: OwnerId, token: FencingToken) {
        if let Some(claimed) = self.known().claims.get_mut(&owner) {
            (claimed.token, claimed.place) = (Some(token), None);
        }
    }

    /// Whether the hold is known under this token. The keys on a lease do not tell.
    pub(crate) fn is_known(&self, renewal: &Renewal) -> bool {
        let known = self.known();
        let claimed = known.claims.get(&renewal.owner);
        claimed.is_some_and(|claimed| claimed.token == Some(renewal.token))
    }

    /// The server has nothing of the claim any more.
    pub(crate) fn forget(&self, owner: OwnerId) {
        self.known().claims.remove(&owner);
    }

    /// The hold is nobody's from now on, and ends after `delay`: its key is on a lease of its own.
    pub(crate) fn retire(&self, owner: OwnerId, delay: Ttl) {
        let (now, mut known) = (SystemClock.now(), self.known());
        known.claims.remove(&owner);
        known.retired.retain(|_, end| !now.has_reached(*end));
        known.retired.insert(owner, now.after(whole(delay)));
    }

    /// Whether the hold of `owner` outlasts its work. To delete its key would let others in early.
    pub(crate) fn is_retired(&self, owner: OwnerId) -> bool {
        self.known().retired.get(&owner).is_some_and(|end| !SystemClock.now().has_reached(*end))
    }

    /// The hold under this token is gone. A later one of the same owner is another.
    pub(crate) fn lost(&self, owner: OwnerId, token: FencingToken) {
        let mut known = self.known();
        let is_it = |claimed: &Claimed| claimed.token.is_none_or(|known| known == token);
        if known.claims.get(&owner).is_some_and(is_it) {
            known.claims.remove(&owner);
        }
    }

    /// All sessions, and whether a claim needs each; `None` if no claim does.
    pub(crate) fn sessions(&self) -> Vec<(Arc<Session>, Option<Need>)> {
        let known = self.known();
        let needed = known.needed();
        let session =
            |session: &Arc<Session>| (session.clone(), needed.get(&session.id()).copied());
        known.sessions.values().map(session).collect()
    }

    /// Takes out the sessions that no claim hangs on and that `may_go`.
    pub(crate) fn take_unused(&self, may_go: impl Fn(&Session) -> bool) -> Vec<Arc<Session>> {
        let mut known = self.known();
        let needed = known.needed();
        let unused = |session: &Session| !needed.contains_key(&session.id()) && may_go(session);
        let gone = known.sessions.extract_if(|_, session| unused(session));
        gone.map(|(_, session)| session).collect()
    }

    /// Takes a session back that could not be ended, unless there is another of its TTL by now.
    pub(crate) fn put_back(&self, session: Arc<Session>) {
        let seconds = session.ttl().as_secs().cast_signed();
        self.known().sessions.entry(seconds).or_insert(session);
    }

    /// The claims that nobody believes in any more. They stay noted until they are [forgotten](Self::forget).
    pub(crate) fn expired(&self, now: Moment) -> Vec<Expired> {
        let known = self.known();
        let expired = known.claims.iter().filter(|(_, claimed)| now.has_reached(claimed.until));
        expired.map(|(owner, claimed)| claimed.expired(*owner)).collect()
    }

    /// Forgets a claim whose key was deleted, unless it was begun anew meanwhile.
    pub(crate) fn ended(&self, owner: OwnerId) {
        let mut known = self.known();
        let now = SystemClock.now();
        if known.claims.get(&owner).is_some_and(|claimed| now.has_reached(claimed.until)) {
            known.claims.remove(&owner);
        }
    }

    /// Those of `keys` that are no claim of ours.
    pub(crate) fn unknown<'a>(&self, keys: impl Iterator<Item = &'a Vec<u8>>) -> Vec<Vec<u8>> {
        let known = self.known();
        let is_ours = |key: &[u8]| {
            let owner = self.root.read(key).and_then(|(_, owner)| owner);
            owner.is_some_and(|owner| known.claims.contains_key(&owner))
        };
        keys.filter(|key| !is_ours(key)).cloned().collect()
    }

    /// Whether there is nothing to look after.
    pub(crate) fn is_empty(&self) -> bool {
        let known = self.known();
        known.sessions.is_empty() && known.claims.is_empty()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// The sessions that claims need, by their ids.
    fn needed(&self) -> HashMap<i64, Need> {
        let mut needed = HashMap::new();
        for Claimed { place, hold, .. } in self.claims.values() {
            if place.is_some() {
                needed.entry(hold.id()).or_insert(Need::Later);
            }
            needed.insert(place.as_ref().unwrap_or(hold).id(), Need::Now);
        }
        needed
    }

    /// The session of so many seconds. One that the server has ended is replaced.
    fn session(&mut self, server: &Arc<Server>, seconds: i64) -> Arc<Session> {
        self.sessions.retain(|_, session| !session.is_gone());
        let new = || Arc::new(Session::new(server.clone(), seconds));
        self.sessions.entry(seconds).or_insert_with(new).clone()
    }
}

impl Claimed {
    fn lasts_until(&mut self, until: Moment) {
        // C10: never shortened, since answers may overtake each other.
        if until.has_reached(self.until) {
            self.until = until;
        }
    }

    fn expired(&self, owner: OwnerId) -> Expired {
        let sessions = self.place.iter().cloned().chain([self.hold.clone()]).collect();
        Expired { owner, key: self.key.clone(), sessions }
    }
}

/// A TTL in whole seconds, rounded up (C4).
fn seconds(ttl: Ttl) -> i64 {
    whole_seconds(ttl.as_duration())
}

/// A span in whole seconds, rounded up.
pub(crate) fn whole_seconds(span: Duration) -> i64 {
    span.as_secs().cast_signed() + i64::from(span.subsec_nanos() > 0)
}

fn whole(ttl: Ttl) -> Duration {
    Duration::from_secs(seconds(ttl).unsigned_abs())
}
