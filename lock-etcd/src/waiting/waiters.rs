//! The waiting claims of this client, and the detection of their turns.
//!
//! A waiter looks ahead. It watches its own claim, the one before it, and the one before that:
//!
//! ```text
//!   holder ◀── … ◀── second ◀── first ◀── own
//!                    watched    watched   watched
//! ```
//!
//! When the second claim goes, the waiter reads which claims before it are left; nobody waits for that read. When the
//! first one goes, and all before it are known to be gone, the waiter holds the lock: no claim can come before an
//! existing one, so no further read is needed (C27). All three watches are on one stream of one member, which reports
//! deletions in their order. So our own claim still existed when the first one went. The hold lasts for a moment,
//! within which it is renewed, and so [claimed](crate::waiting::overtaking).
//!
//! A shared claim does the same, but sees only claims of other kinds before it. A claim on permits has one watch: on
//! the claim before it, or, if all before it hold, on the deletion of any of them. Then it looks again, and writes
//! its slots if they are free.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{FutureExt, join_all, select_all, try_join_all};
use lock_core::backend::{FALLBACK_POLL, Grant, ServerTime, WaiterHandle};
use lock_core::{
    BackendError, Clock, Contention, FencingToken, Kind, Moment, OwnerId, SystemClock,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::layout::stored_claim::StoredClaim;
use crate::protocol::requests::{self, ClaimKeys};
use crate::protocol::standing::{Ahead, Standing};
use crate::protocol::view::{View, entries};
use crate::sessions::claims::Claims;
use crate::sessions::in_flight::InFlight;
use crate::sessions::session::Session;
use crate::waiting::overtaking::UNCLAIMED_LASTS;
use crate::waiting::watches::{Watch, Watches};
use crate::wire::server::Server;

/// Number of claims before our own that are watched.
const NEAREST: usize = 2;

/// Number of places in one request: it reads three keys each, and the server takes up to 128 operations.
const AT_ONCE: usize = 40;

/// Least remaining time of a hold from a place when its waiter is woken, so that it can be renewed.
const LEAST: Duration = Duration::from_millis(600);

/// The waiting claims of one client, each with a task.
pub(crate) struct Waiters {
    server: Arc<Server>,
    claims: Arc<Claims>,
    watches: Arc<Watches>,
    waiting: Mutex<HashMap<OwnerId, (Arc<Place>, Task)>>,
    look: InFlight<Result<(), BackendError>>,
}

struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A place in a queue.
pub(crate) struct Place {
    pub(crate) owner: OwnerId,
    pub(crate) keys: ClaimKeys,
    pub(crate) kind: Kind,
    /// The revision in which its key was made.
    pub(crate) revision: i64,
    /// The token of the hold that the place becomes.
    pub(crate) token: FencingToken,
    /// The session that keeps the claim's key.
    pub(crate) session: Arc<Session>,
    /// The first claim when the place was taken.
    pub(crate) first: Contention,
    pub(crate) ahead: Mutex<Ahead>,
    /// True if its task watches the claims before it, and will wake the waiter.
    pub(crate) is_watching: AtomicBool,
    /// Times of the waiter's last question, and of its answer on the server's clock.
    pub(crate) answered: Mutex<(Moment, ServerTime)>,
    pub(crate) waiter: WaiterHandle,
    pub(crate) seen: Mutex<LastLook>,
    /// Notified when a look cannot tell if the front of the queue is alive.
    pub(crate) in_doubt: Notify,
}

/// The last look that saw the place, and a claim before it: its start, and the revision of the store then.
#[derive(Clone, Copy)]
pub(crate) struct LastLook {
    pub(crate) asked: Moment,
    pub(crate) revision: i64,
}

impl Waiters {
    pub(crate) fn new(server: Arc<Server>, claims: Arc<Claims>, watches: Arc<Watches>) -> Self {
        let (waiting, look) = Default::default();
        Self { server, claims, watches, waiting, look }
    }

    /// Returns the place of a claim, and true if its task watches the claims before it.
    pub(crate) fn place(&self, owner: OwnerId) -> Option<(Arc<Place>, bool)> {
        let waiting = self.waiting.lock();
        let (place, task) = waiting.get(&owner)?;
        let is_watching = place.is_watching.load(Ordering::Acquire) && !task.0.is_finished();
        Some((place.clone(), is_watching))
    }

    /// Wakes the claim when its turn has come.
    pub(crate) fn wait(&self, place: Place) {
        let place = Arc::new(place);
        let turn = Turn {
            place: place.clone(),
            server: self.server.clone(),
            watches: self.watches.clone(),
            claims: self.claims.clone(),
        };
        let task = tokio::spawn(async move {
            let place = turn.place.clone();
            let grant = turn.comes().await;
            // The flag is set before the waiter looks again. That look finds the claims to watch.
            place.is_watching.store(false, Ordering::Release);
            match grant {
                Ok(Some(grant)) => place.waiter.granted(grant),
                // Our claim is gone, or the server did not answer, or there may be room.
                Ok(None) | Err(_) => place.waiter.try_again(),
            }
        });
        let mut waiting = self.waiting.lock();
        if waiting.len() == waiting.capacity() {
            waiting.retain(|_, (_, task)| !task.0.is_finished());
        }
        waiting.insert(place.owner, (place, Task(task)));
    }

    /// Looks at all places, if each still exists with a claim before it: one request for all of them, and for all
    /// callers meanwhile. Otherwise the waiter looks again itself (C28).
    pub(crate) async fn look(self: &Arc<Self>) -> Result<(), BackendError> {
        let waiters = self.clone();
        self.look.join(|| async move { waiters.look_at_all().await }.boxed()).await
    }

    async fn look_at_all(&self) -> Result<(), BackendError> {
        let watched = |place: &Place| {
            let is_watching = place.is_watching.load(Ordering::Acquire);
            // A claim that waits for permits must look at more than the claim before it.
            is_watching && !matches!(place.kind, Kind::OneOf(_))
        };
        let places: Vec<_> = self.waiting.lock().values().map(|(place, _)| place.clone()).collect();
        let places: Vec<_> = places.into_iter().filter(|place| watched(place)).collect();
        try_join_all(places.chunks(AT_ONCE).map(|some| self.look_at(some))).await.map(drop)
    }

    async fn look_at(&self, places: &[Arc<Place>]) -> Result<(), BackendError> {
        let (asked, answer) = loop {
            let (asked, link) = (SystemClock.now(), self.server.link());
            let read = requests::read(places.iter().flat_map(|place| place.polled()));
            tokio::select! {
                answer = self.server.txn(read) => break (asked, answer?),
                // C28: a connection that was given up may never answer, and each caller that joins keeps its request.
                () = link.retired() => {}
            }
        };
        for (place, found) in places.iter().zip(entries(&answer)?.chunks(3)) {
            place.looked(asked, answer.revision, found);
        }
        Ok(())
    }

    /// Stops waking the claim.
    pub(crate) fn forget(&self, owner: OwnerId) {
        self.waiting.lock().remove(&owner);
    }
}

impl Place {
    /// Returns the claims before it, as far as they are known.
    pub(crate) fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock()
    }

    /// Returns the time of the waiter's last question, and that of the server's answer.
    pub(crate) fn answered(&self) -> MutexGuard<'_, (Moment, ServerTime)> {
        self.answered.lock()
    }

    /// Returns the keys that show if it still waits: its own, that of the claim before it, and the farthest known
    /// one.
    fn polled(&self) -> [Vec<u8>; 3] {
        let (own, ahead) = (self.keys.own.as_bytes(), self.ahead());
        let [before, farthest] = [ahead.keys.first(), ahead.keys.last()];
        [own, before.map_or(own, Vec::as_slice), farthest.map_or(own, Vec::as_slice)]
            .map(<[u8]>::to_vec)
    }

    /// Notes the result of a read of these keys. If the place is lost, or no claim is before it, the waiter must look
    /// again.
    fn looked(&self, asked: Moment, revision: i64, found: &[Option<StoredClaim>]) {
        let made = |number: usize| Some(found.get(number)?.as_ref()?.revision);
        let is_there = made(0) == Some(self.revision);
        if is_there && made(1).is_some_and(|before| before < self.revision) {
            *self.seen() = LastLook { asked, revision };
            // A key that was made anew behind the place is another claim.
            let farthest = found.get(2).and_then(Option::as_ref);
            let farthest = farthest.filter(|first| first.revision < self.revision);
            let is_whole = self.ahead().is_whole;
            if farthest.is_none_or(|first| is_whole && first.leaves_doubt()) {
                self.in_doubt.notify_one();
            }
        } else {
            self.is_watching.store(false, Ordering::Release);
            self.waiter.try_again();
        }
    }

    /// Returns true if a look within the last second saw that it waits (C28).
    pub(crate) fn was_seen_lately(&self) -> bool {
        SystemClock.now().since(self.seen().asked) < FALLBACK_POLL
    }

    /// Returns the result of the last look.
    pub(crate) fn seen(&self) -> MutexGuard<'_, LastLook> {
        self.seen.lock()
    }

    /// Describes the holder to the waiter.
    pub(crate) fn contention(&self) -> Contention {
        let mut contention = self.first.clone();
        contention.position = self.ahead().position();
        contention.at = Some(self.answered().1);
        contention
    }

    /// Returns the hold, whose TTL counts from the waiter's last question. It is believed no longer than the waiters
    /// behind it wait for it to be [claimed](crate::waiting::overtaking). `None` if that time is too short; the
    /// waiter's next look then finds that it holds.
    fn grant(&self) -> Option<Grant> {
        let (asked, at) = *self.answered();
        let until = self.seen().asked.after(UNCLAIMED_LASTS);
        let left = |now: Moment| self.session.left(now).min(now.until(until));
        let is_enough = left(SystemClock.now()) >= LEAST;
        is_enough.then(|| Grant::new(self.token, left(asked)).at(at))
    }
}

/// Waits for the turn of one place.
pub(crate) struct Turn {
    pub(crate) place: Arc<Place>,
    pub(crate) server: Arc<Server>,
    watches: Arc<Watches>,
    claims: Arc<Claims>,
}

impl Turn {
    /// Returns the grant when the turn has come; `None` if the place is lost, or the waiter must look itself.
    async fn comes(self) -> Result<Option<Grant>, BackendError> {
        tokio::select! {
            turn = self.is_told() => turn,
            never = self.overtakes() => match never {},
        }
    }

    async fn is_told(&self) -> Result<Option<Grant>, BackendError> {
        if let Kind::OneOf(_) = self.place.kind {
            return self.stirs().await.map(|()| None);
        }
        // The own watch comes first.
        let mut watched = vec![self.watch(self.place.keys.own.as_bytes())];
        self.watch_nearest(&mut watched);
        loop {
            join_all(watched.iter_mut().map(Watch::opened)).await;
            // Finds the claims that went before the watches were open.
            if !self.look().await? {
                return Ok(None);
            }
            if self.watch_nearest(&mut watched) {
                continue;
            }
            while !self.must_look(&watched) {
                select_all(watched.iter_mut().map(|watch| watch.changed().boxed())).await;
            }
            if watched[0].is_gone() {
                return Ok(None);
            }
            // Events before the reopening of a watch are missing, and need a read.
            if self.place.ahead().is_none() && !watched.iter().any(Watch::was_reopened) {
                let Place { owner, keys, revision, .. } = &*self.place;
                let grant = self.place.grant();
                let is_granted =
                    grant.is_some() && self.claims.holds(*owner, &keys.own, *revision, true);
                return Ok(grant.filter(|_| is_granted));
            }
        }
    }

    /// Returns when a claim on permits must look again: the nearest claim before it has its slots, or is gone; or all
    /// before it hold, and a claim on this lock is gone (C34).
    async fn stirs(&self) -> Result<(), BackendError> {
        let Place { keys, kind, revision, owner, .. } = &*self.place;
        let nearest = self.place.ahead().keys.first().cloned();
        let before = match &nearest {
            Some(key) => self.watches.watch_changes(key),
            None => self.watches.watch_deletions(&keys.range),
        };
        let mut watched = [self.watch(keys.own.as_bytes()), before];
        join_all(watched.iter_mut().map(Watch::opened)).await;
        // Reads the events before the watches were open.
        let view = View::read(&self.server, keys, (*kind, *owner), Some(*revision)).await?;
        let now_nearest = view.ahead.and_then(|ahead| ahead.keys.first().cloned());
        if view.standing == Standing::Waits && view.own.is_some() && now_nearest == nearest {
            select_all(watched.iter_mut().map(|watch| watch.changed().boxed())).await;
        }
        Ok(())
    }

    /// Watches the deletion of the claim with this key, which existed when our own was made.
    fn watch(&self, key: &[u8]) -> Watch {
        self.watches.watch(key.into(), self.place.revision)
    }

    /// Watches the own key, and those of the nearest claims before it. Returns true if that opens another watch.
    fn watch_nearest(&self, watched: &mut Vec<Watch>) -> bool {
        let nearest: Vec<_> = self.place.ahead().keys.iter().take(NEAREST).cloned().collect();
        let own = self.place.keys.own.as_bytes();
        let is_near = |watch: &Watch| nearest.iter().any(|key| watch.is_of(key));
        watched.retain(|watch| watch.is_of(own) || is_near(watch));
        let known = watched.len();
        for key in nearest {
            if !watched.iter().any(|watch| watch.is_of(&key)) {
                watched.push(self.watch(&key));
            }
        }
        watched.len() > known
    }

    /// Notes the events of the watches. Returns true if a read is needed now: the turn has come, or the own key is
    /// gone, or other claims are nearest now, or a watch may have missed something.
    fn must_look(&self, watched: &[Watch]) -> bool {
        let mut ahead = self.place.ahead();
        let gone =
            |key: &Vec<u8>| watched[1..].iter().any(|watch| watch.is_of(key) && watch.is_gone());
        ahead.keys.retain(|key| !gone(key));
        let nearest = ahead.keys.iter().take(NEAREST);
        let all_watched =
            nearest.clone().all(|key| watched[1..].iter().any(|watch| watch.is_of(key)));
        ahead.is_none()
            || !all_watched
            || (!ahead.is_whole && ahead.keys.len() < NEAREST)
            || watched[0].is_gone()
            || watched.iter().any(Watch::was_reopened)
    }

    /// Reads which claims before us are left; returns false if our own claim is gone.
    async fn look(&self) -> Result<bool, BackendError> {
        let ahead = self.place.ahead().clone();
        if !ahead.is_whole && ahead.keys.len() < NEAREST {
            return self.look_at_all().await;
        }
        let keys = [self.place.keys.own.as_bytes().to_vec()].into_iter().chain(ahead.keys.clone());
        let found = entries(&self.server.txn(requests::read(keys)).await?)?;
        let is_before =
            |entry: &Option<_>| matches!(entry, Some(entry) if self.is_before_us(entry));
        let left: Vec<_> = ahead.keys.into_iter().zip(&found[1..]).collect();
        let left = left.into_iter().filter(|(_, entry)| is_before(entry)).map(|(key, _)| key);
        self.place.ahead().keys = left.collect();
        Ok(found[0].as_ref().is_some_and(|own| own.revision == self.place.revision))
    }

    /// Reads all claims: more claims were before us than we know.
    async fn look_at_all(&self) -> Result<bool, BackendError> {
        let Place { keys, kind, revision, owner, .. } = &*self.place;
        let view = View::read(&self.server, keys, (*kind, *owner), Some(*revision)).await?;
        let is_there = view.own.is_some_and(|own| own.revision == self.place.revision);
        *self.place.ahead() = view.ahead.unwrap_or_default();
        Ok(is_there)
    }

    /// Returns true if the claim is before us: a key that was made anew since is behind us.
    fn is_before_us(&self, entry: &StoredClaim) -> bool {
        entry.revision < self.place.revision
    }
}
