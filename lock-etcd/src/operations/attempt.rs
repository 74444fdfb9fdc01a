//! One attempt to acquire: takes the lock or a place in its queue, or looks again later.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::future::join_all;
use lock_core::backend::{Attempt, Claim, Grant, WaiterHandle};
use lock_core::{BackendError, Clock, Kind, Moment, Slots, SystemClock};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::operations::backend::EtcdBackend;
use crate::protocol::floor::Floor;
use crate::protocol::requests::{self, ClaimKeys};
use crate::protocol::standing::{Standing, first_slots};
use crate::protocol::view::{View, is_taken, server_time};
use crate::sessions::session::Session;
use crate::waiting::overtaking::{due, front};
use crate::waiting::waiters::{LastLook, Place};
use crate::wire::answer::Answer;
use crate::wire::error::{overtaken, says_lease_gone};

/// Most entries of one attempt: another follows each time that somebody else took what seemed free.
const ENTRIES: usize = 16;

/// An attempt in progress.
pub(crate) struct Try<'a> {
    pub(crate) claim: &'a Claim,
    pub(crate) keys: ClaimKeys,
    /// The moment before the first request of the attempt was sent.
    asked: Moment,
    pub(crate) session: Arc<Session>,
}

impl EtcdBackend {
    /// Makes one attempt: a claim with a place in the queue looks again, any other enters.
    pub(crate) async fn attempt(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let this = self.begin(claim);
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

    /// Notes a claim before its requests are sent.
    pub(crate) fn begin<'a>(&self, claim: &'a Claim) -> Try<'a> {
        let asked = SystemClock.now();
        let (session, own) = self.claims.begin(claim);
        self.keeper.ensure_running();
        Try { claim, keys: ClaimKeys::new(&self.root, claim, own), asked, session }
    }

    /// Takes the lock or a place in its queue, or only looks.
    async fn enter(
        &self,
        this: &Try<'_>,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        use Standing::{Fits, Holds, Waits};
        let (owner, kind) = (this.claim.owner, this.claim.kind);
        this.session.last_for(this.claim.ttl.as_duration()).await?;
        let mut is_there = false;
        for _ in 0..ENTRIES {
            let entered = self.ask_to_enter(this, waiter.is_some()).await?;
            if is_taken(kind, &entered)? {
                let grant = self.taken(this, entered.revision, first_slots(kind))?;
                return Ok(Attempt::Granted(grant));
            }
            // A claim without a place takes slots only if it sees all claims.
            let view = self.look_after(this, waiter.map(|_| entered.revision)).await?;
            is_there = view.own.is_some();
            match (&view.standing, waiter) {
                // C16: an earlier request of this claim has taken the lock.
                (Holds, _) => return self.found_held(this, &view).await,
                (Fits(slots), _) if waiter.is_none() || is_there => {
                    // If somebody else came in between, the claim enters again.
                    if let Some(attempt) = self.take_slots(this, &view, slots).await? {
                        return Ok(attempt);
                    }
                }
                (Waits, Some(waiter)) if is_there => {
                    return self.begin_to_wait(this, waiter, view);
                }
                (Fits(_) | Waits, Some(_)) => break,
                (_, None) => {
                    if let Some(busy) = self.overtakes(this, &view).await? {
                        return Ok(busy);
                    }
                }
            }
        }
        if !is_there {
            // Something else may be on the key. The next try uses another key.
            self.claims.give_up(owner);
        }
        Err(overtaken("the lock, or the place in its queue, was not taken"))
    }

    async fn ask_to_enter(&self, this: &Try<'_>, waits: bool) -> Result<Answer, BackendError> {
        let enter = move || requests::enter(&this.keys, this.claim, this.session.id(), waits);
        let enter_under = |floor| {
            let guarded = move || self.floors.guard(floor, enter());
            self.server.write_together(&this.keys.range, guarded)
        };
        self.put(this, enter_under).await
    }

    /// Returns the answer to a transaction that puts the key of the claim under a floor. If another client has raised
    /// the floor, nothing was done: `send` sends the transaction again under the new one.
    async fn put<F>(
        &self,
        this: &Try<'_>,
        send: impl Fn(Floor) -> F,
    ) -> Result<Answer, BackendError>
    where
        F: Future<Output = Result<Answer, BackendError>>,
    {
        loop {
            let floor = self.floors.get().await?;
            let asked = self.claims.asks(this.claim.owner, &this.keys.own)?;
            let answer = send(floor).await;
            self.claims.answered(&asked, &answer);
            let answer = self.written_on([&this.session], answer).await?;
            if let Some(answer) = self.floors.guarded(&answer)? {
                return Ok(answer);
            }
        }
    }

    /// Returns the answer to a transaction that puts a key on one of the sessions.
    pub(crate) async fn written_on(
        &self,
        sessions: impl IntoIterator<Item = &Arc<Session>>,
        answer: Result<Answer, BackendError>,
    ) -> Result<Answer, BackendError> {
        if answer.as_ref().is_err_and(says_lease_gone) {
            // The answer does not name the lost session. The next try replaces it.
            join_all(sessions.into_iter().map(|session| session.keep_alive())).await;
        }
        answer
    }

    /// Looks after an entry that would have made its place in the revision `made`. S3: a claim that had its place earlier
    /// may not see the claims before it, since many have come after it; then looks again, up to that place.
    async fn look_after(&self, this: &Try<'_>, made: Option<i64>) -> Result<View, BackendError> {
        let view = self.look(this, made).await?;
        let is_earlier = |own: i64| view.ahead.is_none() || made.is_some_and(|made| own < made);
        match view.own.as_ref().map(|own| own.revision).filter(|own| is_earlier(*own)) {
            Some(own) if view.standing == Standing::Waits => self.look(this, Some(own)).await,
            _ => Ok(view),
        }
    }

    async fn look(&self, this: &Try<'_>, made: Option<i64>) -> Result<View, BackendError> {
        let Claim { kind, owner, .. } = *this.claim;
        View::read(&self.server, &this.keys, (kind, owner), made).await
    }

    /// Notes that this attempt took the lock, by a claim that was made in this revision.
    pub(crate) fn taken(
        &self,
        this: &Try<'_>,
        revision: i64,
        slots: Slots,
    ) -> Result<Grant, BackendError> {
        self.waiters.forget(this.claim.owner);
        self.claims.holds(this.claim.owner, &this.keys.own, revision, false);
        let token = self.floors.token(revision)?;
        Ok(Grant::new(token, this.session.left(this.asked)).with_slots(slots))
    }

    /// Takes permits that seemed free; `None` if something has changed since.
    async fn take_slots(
        &self,
        this: &Try<'_>,
        view: &View,
        slots: &Slots,
    ) -> Result<Option<Attempt>, BackendError> {
        this.session.last_for(this.claim.ttl.as_duration()).await?;
        let (keys, lease) = (&this.keys, this.session.id());
        let take = || requests::take_slots(keys, this.claim, slots, lease, view);
        let take_under = |floor| self.server.txn(self.floors.guard(floor, take()));
        let answer = self.put(this, take_under).await?;
        if !answer.succeeded {
            return Ok(None);
        }
        let revision = view.own.as_ref().map_or(answer.revision, |own| own.revision);
        Ok(Some(Attempt::Granted(self.taken(this, revision, slots.clone())?)))
    }

    /// Deletes the front of the queue if nobody has claimed it since an earlier try saw it (C28): the next entry may find
    /// the lock free. Otherwise returns "busy".
    async fn overtakes(
        &self,
        this: &Try<'_>,
        view: &View,
    ) -> Result<Option<Attempt>, BackendError> {
        let due = match view.may_be_dead() {
            true => {
                let kind = this.claim.kind;
                due(&front(&self.server, &this.keys, view.revision + 1, kind).await?)
            }
            false => Vec::new(),
        };
        let seen = Some(&due).filter(|due| !due.is_empty());
        if !self.sights.are_dead(&this.claim.name, seen, SystemClock.now()) {
            return Ok(Some(self.busy(this, view, !due.is_empty()).await));
        }
        // The waiters behind the front may be alive.
        self.server.txn(requests::overtake(due.iter())).await.map(|_| None)
    }

    /// Returns "busy" for an attempt without a place in the queue.
    async fn busy(&self, this: &Try<'_>, view: &View, is_untaken: bool) -> Attempt {
        if view.own.is_none() {
            self.claims.absent(this.claim.owner);
        }
        let mut contention = view.contention();
        contention.is_untaken = is_untaken;
        if let Some(holder) = view.first.as_ref().filter(|first| first.is_claimed()) {
            contention.ttl_left = self.left(holder.lease).await;
        }
        Attempt::Busy(contention)
    }

    /// Notes the place in the queue, and watches the claims before it (C27).
    fn begin_to_wait(
        &self,
        this: &Try<'_>,
        waiter: &WaiterHandle,
        view: View,
    ) -> Result<Attempt, BackendError> {
        let lost = || overtaken("the place in the queue was lost during the request");
        let own = view.own.as_ref().ok_or_else(lost)?;
        let (at, first) = (view.at(), view.contention());
        let ahead = view.ahead.ok_or_else(lost)?;
        let place = Place {
            owner: this.claim.owner,
            keys: this.keys.clone(),
            kind: this.claim.kind,
            revision: own.revision,
            token: self.floors.token(own.revision)?,
            session: this.session.clone(),
            first,
            ahead: Mutex::new(ahead),
            is_watching: AtomicBool::new(true),
            answered: Mutex::new((this.asked, at)),
            waiter: waiter.clone(),
            seen: Mutex::new(LastLook { asked: this.asked, revision: view.revision }),
            in_doubt: Notify::new(),
        };
        let contention = place.contention();
        self.waiters.wait(place);
        Ok(Attempt::Busy(contention))
    }

    /// Returns "busy" again if a look within the last second saw the claim wait. `None` if the place is lost, or is
    /// the first.
    async fn poll(&self, this: &Try<'_>, place: &Place) -> Result<Option<Attempt>, BackendError> {
        if !place.was_seen_lately() {
            self.waiters.look().await?;
        }
        if !place.was_seen_lately() {
            return Ok(None);
        }
        *place.answered() = (this.asked, server_time(place.seen().revision));
        Ok(Some(Attempt::Busy(place.contention())))
    }

    /// Looks again for a claim on permits: if there is room for it, and otherwise which claims it waits for.
    async fn look_again(
        &self,
        this: &Try<'_>,
        place: &Place,
        waiter: &WaiterHandle,
        is_watching: bool,
    ) -> Result<Option<Attempt>, BackendError> {
        let view = self.look(this, Some(place.revision)).await?;
        let is_there = view.own.as_ref().is_some_and(|own| own.revision == place.revision);
        match &view.standing {
            Standing::Fits(slots) if is_there => self.take_slots(this, &view, slots).await,
            Standing::Waits if is_there && is_watching => {
                *place.answered() = (this.asked, view.at());
                let mut contention = view.contention();
                *place.ahead() = view.ahead.unwrap_or_default();
                contention.position = place.ahead().position();
                if !place.ahead().is_none() {
                    place.in_doubt.notify_one();
                }
                Ok(Some(Attempt::Busy(contention)))
            }
            Standing::Waits if is_there => self.begin_to_wait(this, waiter, view).map(Some),
            _ => Ok(None),
        }
    }

    /// Extends a claim that already holds the lock to its full TTL.
    async fn found_held(&self, this: &Try<'_>, view: &View) -> Result<Attempt, BackendError> {
        let Claim { owner, ttl, .. } = *this.claim;
        let ended = || overtaken("the hold ended while it was found");
        let own = view.own.as_ref().ok_or_else(ended)?;
        self.waiters.forget(owner);
        let key = &this.keys.own;
        let session = self.claims.renewing(owner, ttl, own.revision, key)?.ok_or_else(ended)?;
        session.last_for(ttl.as_duration()).await?;
        if !self.settle(owner, own, own.is_claimed(), &session).await? {
            return Err(ended());
        }
        self.claims.holds(owner, key, own.revision, false);
        let grant = Grant::new(self.floors.token(own.revision)?, session.left(this.asked));
        Ok(Attempt::Granted(grant.with_slots(own.slots().clone())))
    }
}
