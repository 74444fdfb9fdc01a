//! One attempt to acquire: to take the lock, or a place in its queue, and to look again later.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use etcd_client::Txn;
use futures_util::future::join_all;
use lock_core::backend::{Attempt, Claim, Grant, WaiterHandle};
use lock_core::{BackendError, Clock, Contention, Kind, Moment, Slots, SystemClock};

use crate::answer::Answer;
use crate::cluster::Cluster;
use crate::error::{BACKEND, overtaken, says_lease_gone};
use crate::floor::Floor;
use crate::requests::{self, ClaimKeys};
use crate::session::Session;
use crate::standing::{Standing, first_slots};
use crate::stored_claim::StoredClaim;
use crate::view::{Entered, View, entered, entries, server_time};
use crate::waiters::Place;
use crate::write::Write;

/// How often an attempt enters: once more for the session of its place, and each time that somebody else took what it
/// saw to be free.
const ENTRIES: usize = 16;

/// How long the session of a place in a queue is to last when the place is looked at: until the next look.
const PLACE_LASTS: Duration = Duration::from_millis(1200);

/// An attempt under way.
pub(crate) struct Try<'a> {
    pub(crate) claim: &'a Claim,
    pub(crate) keys: ClaimKeys,
    /// Before its first request was sent.
    asked: Moment,
    pub(crate) hold: Arc<Session>,
    pub(crate) floor: Floor,
}

impl Cluster {
    /// One attempt: a claim that has a place in the queue looks again, any other enters.
    pub(crate) async fn attempt(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let this = self.begin(claim, self.floors.get().await?);
        if let (Some(waiter), Some((place, is_watching))) =
            (waiter, self.waiters.place(claim.owner))
        {
            // Boxed, since a first attempt does not need it.
            let attempt = match claim.kind {
                Kind::OneOf(_) => {
                    Box::pin(self.look_again(&this, &place, waiter, is_watching)).await?
                }
                _ if is_watching => Box::pin(self.poll(&this, &place)).await?,
                _ => None,
            };
            if let Some(attempt) = attempt {
                return Ok(attempt);
            }
            self.waiters.forget(claim.owner);
        }
        self.enter(&this, waiter).await
    }

    /// Notes a claim, of which requests are sent from now on.
    pub(crate) fn begin<'a>(&self, claim: &'a Claim, floor: Floor) -> Try<'a> {
        let asked = SystemClock.now();
        let (hold, own) = self.claims.begin(claim);
        self.keeper.ensure_running();
        Try { claim, keys: ClaimKeys::new(&self.root, claim, own), asked, hold, floor }
    }

    /// Takes the lock, or a place in its queue, or only looks. A client that has not waited for a while
    /// asks for the session of its place once it is needed, and enters again.
    async fn enter(
        &self,
        this: &Try<'_>,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        use Standing::{Conflicts, Fits, Holds, Waits};
        let (owner, kind) = (this.claim.owner, this.claim.kind);
        this.hold.last_for(this.claim.ttl.as_duration()).await?;
        let mut place = waiter.and_then(|_| self.claims.open_queue(owner));
        let mut is_there = false;
        for _ in 0..ENTRIES {
            if let Some(session) = &place {
                session.last_for(PLACE_LASTS).await?;
            }
            let view = match self.ask_to_enter(this, place.as_ref()).await? {
                Entered::Taken(revision) => {
                    let grant = self.taken(this, revision, first_slots(kind))?;
                    return Ok(Attempt::Granted(grant));
                }
                Entered::Seen(view) => self.seen_whole(this, *view).await?,
            };
            is_there = view.own.is_some();
            match (&view.standing, waiter) {
                // C16: an earlier request of this claim has taken the lock.
                (Holds, _) => return self.found_held(this, &view).await,
                (Conflicts(of), _) => return self.refuse(this, &view, *of).await,
                (Fits(slots), _) => {
                    // If somebody else came in between, it enters again.
                    if let Some(attempt) = self.take_slots(this, &view, slots).await? {
                        return Ok(attempt);
                    }
                }
                (Waits, Some(waiter)) if view.own.is_some() => {
                    // The place may be one of an earlier request.
                    let session = place.unwrap_or_else(|| self.claims.queue(owner));
                    return self.begin_to_wait(this, session, waiter, view).await;
                }
                (Waits, Some(_)) if place.is_none() => place = Some(self.claims.queue(owner)),
                (Waits, Some(_)) => break,
                (Waits, None) => return Ok(self.busy(this, &view).await),
            }
        }
        if !is_there {
            // Something else may be on the key. The next try has another one.
            self.claims.give_up(owner);
        }
        Err(overtaken("the lock, or the place in its queue, was not taken"))
    }

    async fn ask_to_enter(
        &self,
        this: &Try<'_>,
        place: Option<&Arc<Session>>,
    ) -> Result<Entered, BackendError> {
        let place_id = place.map(|session| session.id());
        let enter = || requests::enter(&this.keys, this.claim, this.hold.id(), place_id);
        entered(this.claim, self.write(this, place, enter).await?)
    }

    /// Carries out a transaction that may put the key of the claim on one of its sessions.
    async fn write(
        &self,
        this: &Try<'_>,
        place: Option<&Arc<Session>>,
        txn: impl Fn() -> Txn,
    ) -> Result<Answer, BackendError> {
        let asked = self.claims.asks(this.claim.owner, &this.keys.own)?;
        let guarded = || Write::Txn(self.floors.guard(this.floor, txn()));
        let answer = self.server.write_together(&this.keys.range, guarded).await;
        self.claims.answered(&asked, &answer);
        let sessions = [Some(&this.hold), place].into_iter().flatten();
        self.floors.guarded(&self.written_on(sessions, answer).await?)
    }

    /// What came of a transaction that puts a key on one of the sessions.
    pub(crate) async fn written_on(
        &self,
        sessions: impl Iterator<Item = &Arc<Session>>,
        answer: Result<Answer, BackendError>,
    ) -> Result<Answer, BackendError> {
        if answer.as_ref().is_err_and(says_lease_gone) {
            // Which one? The next try takes another for that one.
            join_all(sessions.map(|session| session.keep_alive())).await;
        }
        answer
    }

    /// The claim had its place before, and many came after it: so it looks at those before it alone.
    async fn seen_whole(&self, this: &Try<'_>, view: View) -> Result<View, BackendError> {
        match &view.own {
            Some(own) if view.ahead.is_none() && view.standing == Standing::Waits => {
                self.look(this, own.revision).await
            }
            _ => Ok(view),
        }
    }

    async fn look(&self, this: &Try<'_>, revision: i64) -> Result<View, BackendError> {
        let kind = this.claim.kind;
        View::of(
            kind,
            this.claim.owner,
            self.server.txn(requests::look(&this.keys, kind, revision)).await?,
        )
    }

    /// This attempt took the lock, by a claim that was made in this revision.
    pub(crate) fn taken(
        &self,
        this: &Try<'_>,
        revision: i64,
        slots: Slots,
    ) -> Result<Grant, BackendError> {
        self.waiters.forget(this.claim.owner);
        self.claims.granted(this.claim.owner, &this.keys.own, revision);
        self.claims.settled(this.claim.owner, revision);
        let token = this.floor.token(revision)?;
        Ok(Grant::new(token, this.hold.left(this.asked)).with_slots(slots))
    }

    /// Takes permits that were seen to be free; `None` if something has changed since.
    async fn take_slots(
        &self,
        this: &Try<'_>,
        view: &View,
        slots: &Slots,
    ) -> Result<Option<Attempt>, BackendError> {
        this.hold.last_for(this.claim.ttl.as_duration()).await?;
        let take = requests::take_slots(&this.keys, this.claim, slots, this.hold.id(), view);
        let asked = self.claims.asks(this.claim.owner, &this.keys.own)?;
        let answer = self.server.txn(self.floors.guard(this.floor, take)).await;
        self.claims.answered(&asked, &answer);
        let answer = self.written_on([&this.hold].into_iter(), answer).await?;
        let answer = self.floors.guarded(&answer)?;
        if !answer.succeeded {
            return Ok(None);
        }
        let revision = view.own.as_ref().map_or(answer.revision, |own| own.revision);
        Ok(Some(Attempt::Granted(self.taken(this, revision, slots.clone())?)))
    }

    /// C33: another number of permits. The claim leaves nothing behind.
    async fn refuse(
        &self,
        this: &Try<'_>,
        view: &View,
        held: u16,
    ) -> Result<Attempt, BackendError> {
        self.waiters.forget(this.claim.owner);
        if let Some(own) = &view.own {
            self.server.txn(requests::delete(own)).await?;
        }
        self.claims.absent(this.claim.owner);
        Err(BackendError::conflict(BACKEND, this.claim.kind.permits(), held))
    }

    /// Another has the lock, and this attempt wanted no place in the queue.
    async fn busy(&self, this: &Try<'_>, view: &View) -> Attempt {
        if view.own.is_none() {
            self.claims.absent(this.claim.owner);
        }
        let mut contention = Contention::unknown();
        contention.at = Some(view.at());
        if let Some(holder) = &view.first {
            contention.ttl_left = self.left(holder.lease).await;
            // C49: our own claims have a lease.
            contention.foreign_without_ttl = holder.lease == 0;
            contention.holder = Some(holder.value.label.clone());
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
        let at = view.at();
        let ahead = view.ahead.ok_or_else(lost)?;
        let holder_lease = view.first.as_ref().map(|first| first.lease);
        let place = Place {
            owner: this.claim.owner,
            keys: this.keys.clone(),
            kind: this.claim.kind,
            revision: own.revision,
            token: this.floor.token(own.revision)?,
            session,
            // C49: our own claims have a lease.
            behind_foreign_key: view.first.as_ref().is_some_and(|first| first.lease == 0),
            holder: view.first.map(|first| first.value.label),
            ahead: Mutex::new(ahead),
            is_watching: AtomicBool::new(true),
            answered: Mutex::new((this.asked, at)),
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
        let keys = [Some(place.keys.own.as_bytes().to_vec()), before].into_iter().flatten();
        let answer = self.server.txn(requests::read(keys)).await?;
        let found = entries(&answer)?;
        let made = |entry: Option<&Option<StoredClaim>>| Some(entry?.as_ref()?.revision);
        let own_is_there = made(found.first()) == Some(place.revision);
        if !own_is_there || made(found.get(1)).is_none_or(|made| made >= place.revision) {
            return Ok(None);
        }
        *place.answered() = (this.asked, server_time(answer.revision));
        self.claims.waits(this.claim.owner);
        Ok(Some(Attempt::Busy(place.contention())))
    }

    /// A claim on permits looks again: whether there is room for it, and else what it waits for.
    async fn look_again(
        &self,
        this: &Try<'_>,
        place: &Place,
        waiter: &WaiterHandle,
        is_watching: bool,
    ) -> Result<Option<Attempt>, BackendError> {
        place.session.last_for(PLACE_LASTS).await?;
        let view = self.look(this, place.revision).await?;
        let is_there = view.own.as_ref().is_some_and(|own| own.revision == place.revision);
        match &view.standing {
            Standing::Fits(slots) if is_there => self.take_slots(this, &view, slots).await,
            Standing::Waits if is_there && is_watching => {
                *place.answered() = (this.asked, view.at());
                *place.ahead() = view.ahead.unwrap_or_default();
                self.claims.waits(this.claim.owner);
                Ok(Some(Attempt::Busy(place.contention())))
            }
            Standing::Waits if is_there => {
                let session = place.session.clone();
                self.begin_to_wait(this, session, waiter, view).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The claim turns out to hold the lock already: lets it last for its whole TTL.
    async fn found_held(&self, this: &Try<'_>, view: &View) -> Result<Attempt, BackendError> {
        let owner = this.claim.owner;
        let own = view.own.as_ref().ok_or_else(|| overtaken("the hold ended at once"))?;
        self.waiters.forget(owner);
        let key = &this.keys.own;
        match self.settle(key, owner, own.revision, own.lease, &this.hold).await? {
            true => {
                self.claims.granted(owner, key, own.revision);
                let (token, ttl) = (this.floor.token(own.revision)?, this.hold.left(this.asked));
                Ok(Attempt::Granted(Grant::new(token, ttl).with_slots(own.slots().clone())))
            }
            false => Err(overtaken("the hold ended while it was found")),
        }
    }
}
