//! Holds: from the grant of a lock to its end. A [`Held`] is renewed until its drop.

mod held;
mod held_labels;
mod lost_signal;
mod recording;
mod registry;
mod renewer;
mod renewing;
mod schedule;
mod work;

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

pub(crate) use self::held::Held;
pub(crate) use self::held_labels::{HeldLabel, HeldLabels};
pub use self::lost_signal::LostSignal;
pub(crate) use self::renewer::Renewer;
use self::renewing::Duty;
pub(crate) use self::renewing::least_passed;
pub(crate) use self::work::while_held;
use crate::engine::client::{ClientParts, Unanswered, is_loss};
use crate::model::{
    BackendError, Bound, FencingToken, Lease, LockError, LockName, LostReason, Moment, OwnerId, Ttl,
};
use crate::sync::{Mutex, MutexGuard, locked};

/// One hold of this client.
#[derive(Debug)]
pub(crate) struct Hold {
    /// The owner id was drawn for this acquisition alone, so it identifies a hold within the process.
    pub(crate) owner: OwnerId,
    pub(crate) name: LockName,
    pub(super) began: Moment,
    client: Arc<ClientParts>,
    /// The bound of renewing, if there is one.
    bound: OnceLock<Bound>,
    state: Mutex<State>,
    /// The reason of its end, once it is over.
    reason: OnceLock<LostReason>,
    /// True if its guard gives it back, false if its lease was taken over; unset until one of them comes first.
    is_own: OnceLock<bool>,
    over: Notify,
}

#[derive(Debug)]
struct State {
    lease: Lease,
    /// True if the grant was for less than was asked: a pushed grant, until it is renewed.
    is_short: bool,
    /// A third of the TTL, or of the time that was left when the server last confirmed the hold.
    renew_interval: Duration,
    /// The moment at which the next renewal is due.
    due_at: Moment,
    /// The moment of the next try: when the renewal is due, or later after a try without an answer.
    renew_at: Moment,
    /// Time from which a renewal may join the batch of one that is due.
    batchable_at: Moment,
    renewing: bool,
    /// Error of the last renewal, until one is confirmed.
    renewal_error: Option<BackendError>,
    /// Part of the hold in an outage, while its last renewal has no answer.
    unanswered: Option<Unanswered>,
    /// Counts the hold under its label until its end.
    label: Option<Box<HeldLabel>>,
}

impl Hold {
    /// Makes a hold that counts under `label` until its end.
    pub(crate) fn new(lease: Lease, client: Arc<ClientParts>, label: Option<HeldLabel>) -> Self {
        let now = client.now();
        let (owner, name, bound) = (lease.owner, lease.name.clone(), OnceLock::new());
        let is_short = lease.granted < lease.asked.as_duration();
        let mut state = State {
            lease,
            is_short,
            renew_interval: Duration::ZERO,
            due_at: now,
            renew_at: now,
            batchable_at: now,
            renewing: false,
            renewal_error: None,
            unanswered: None,
            label: label.map(Box::new),
        };
        state.schedule(now);
        if state.lease.token != state.lease.granted_as {
            state.schedule_passed(now, client.options.drift);
        }
        let (state, reason, over) = (Mutex::new(state), OnceLock::new(), Notify::new());
        let is_own = OnceLock::new();
        Self { owner, name, client, began: now, bound, state, reason, is_own, over }
    }

    /// Leaves the hold on the server to the next owner of its lease. Returns false if its guard gives it back.
    pub(crate) fn supersede(&self) -> bool {
        !self.is_own.get_or_init(|| false)
    }

    /// Returns true if its guard gives it back on the server. From then on its lease cannot be attached (S5).
    pub(crate) fn is_own(&self) -> bool {
        *self.is_own.get_or_init(|| true)
    }

    pub(crate) fn signal(self: &Arc<Self>) -> LostSignal {
        LostSignal::of(self.clone())
    }

    pub(crate) fn lease(&self) -> Lease {
        self.state().lease.clone()
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.state().lease.token
    }

    /// Returns the reason why the hold is over, by the clock (C7): no task needs to have run. A fork has no holds.
    pub(crate) fn lost_reason(&self) -> Option<LostReason> {
        match self.client.process.is_this() {
            true => self.lost_reason_at(self.client.now()),
            false => Some(LostReason::Forked),
        }
    }

    /// Returns true if the hold is over, by the clock. It notes and tells nothing, so it may be called under a mutex.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over_at(self.client.now())
    }

    /// Returns true if the hold is over without a release, in the same way.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_over() && self.reason.get() != Some(&LostReason::Released)
    }

    fn is_over_at(&self, now: Moment) -> bool {
        self.reason.get().is_some() || now.has_reached(self.deadline())
    }

    fn lost_reason_at(&self, now: Moment) -> Option<LostReason> {
        if now.has_reached(self.deadline()) {
            self.end(self.reason_of_expiry());
        }
        self.reason.get().copied()
    }

    /// Returns the reason of an expiry: renewals failed, or renewing had stopped.
    fn reason_of_expiry(&self) -> LostReason {
        let state = self.state();
        let is_bounded = self.has_reached_bound(state.lease.deadline);
        match is_bounded && state.renewal_error.is_none() {
            true => LostReason::MaxHold,
            false => LostReason::Expired,
        }
    }

    /// Returns the error of the last renewal, if that failed.
    pub(crate) fn renewal_error(&self) -> Option<BackendError> {
        self.state().renewal_error.clone()
    }

    /// Returns true if the last renewal had no answer.
    pub(crate) fn has_no_answer(&self) -> bool {
        self.state().renewal_error.is_some()
    }

    /// Returns the deadline of the hold, as far as is known.
    pub(crate) fn deadline(&self) -> Moment {
        self.state().lease.deadline
    }

    /// Returns the time left, by the clock.
    pub(crate) fn remaining(&self) -> Duration {
        match self.lost_reason() {
            None => self.client.now().until(self.state().lease.deadline),
            Some(_) => Duration::ZERO,
        }
    }

    /// Waits until the hold is over (C8). It watches the deadline itself, since the renewer's runtime may be gone. A
    /// plain timer does, at one wake-up a TTL; the renewer watches for suspend.
    pub(crate) async fn ended(&self) -> LostReason {
        loop {
            // Listens before it looks, so that no end is missed.
            let mut over = pin!(self.over.notified());
            over.as_mut().enable();
            if let Some(reason) = self.lost_reason() {
                return reason;
            }
            // C9: the deadline has a timer of its own, which no request can delay.
            drop(timeout(self.remaining(), over).await);
        }
    }

    /// Waits until another task notes that the hold is over.
    pub(crate) async fn ended_by_someone(&self) {
        let mut over = pin!(self.over.notified());
        over.as_mut().enable();
        if self.reason.get().is_none() {
            over.await;
        }
    }

    pub(crate) fn error_if_lost(&self) -> Result<(), LockError> {
        match self.lost_reason() {
            None => Ok(()),
            Some(reason) => Err(self.lost_error(reason)),
        }
    }

    pub(crate) fn lost_error(&self, reason: LostReason) -> LockError {
        let source = (reason == LostReason::Expired).then(|| self.renewal_error()).flatten();
        LockError::Lost { name: self.name.clone(), reason, source }
    }

    /// Ends the hold for good (C10). The first reason stays.
    pub(crate) fn end(&self, reason: LostReason) {
        // C8: sticky, with the first reason.
        if self.reason.set(reason).is_ok() {
            self.over.notify_waiters();
            drop(self.state().label.take());
            let held = self.client.now().since(self.began);
            let mut state = self.state();
            let (token, unanswered) = (state.lease.token, state.unanswered.take());
            let error = state.renewal_error.clone().filter(|_| reason == LostReason::Expired);
            drop(state);
            self.client.telemetry.hold_ended(&self.name, token, reason, error.as_ref(), held);
            unanswered.into_iter().for_each(|unanswered| unanswered.ended(is_loss(reason)));
        }
    }

    /// Stops renewing `span` from now, unless an earlier call set another bound (C13).
    pub(crate) fn renew_for(&self, span: Duration) {
        let ttl = self.state().lease.asked;
        self.bound_by(Bound::new(self.client.now().after(span), ttl));
    }

    /// Sets the bound of renewing, unless there is one.
    pub(crate) fn bound_by(&self, bound: Bound) {
        let _ = self.bound.set(bound);
    }

    /// Returns the bound of renewing.
    pub(crate) fn bound(&self) -> Option<Bound> {
        self.bound.get().copied()
    }

    fn has_reached_bound(&self, now: Moment) -> bool {
        self.bound.get().is_some_and(|bound| now.has_reached(bound.renew_until))
    }

    /// Shares the hold with another request: renewals ask for the longest of their TTLs (C43). The present grant may
    /// be shorter until the next renewal, which comes soon, as after a pushed grant. The bound of the first request
    /// stays: after it there is no such renewal (C13).
    pub(crate) fn ask_for(&self, ttl: Ttl) {
        let now = self.client.now();
        let mut state = self.state();
        if ttl > state.lease.asked && !self.has_reached_bound(now) {
            (state.lease.asked, state.is_short) = (ttl, true);
            state.schedule(now);
        }
    }

    /// Notes that the server keeps the hold for at least `span` from now, so that others stay out even after a crash
    /// (C41). From now on renewals ask for `ttl`, at its pace: they notice a loss, and shorten nothing (C10).
    ///
    /// A bound of renewing ends the hold one TTL later, also within the span: the server keeps others out without
    /// renewals.
    pub(crate) fn keep_out(&self, span: Ttl, ttl: Ttl) {
        let mut state = self.state();
        state.lease.asked = ttl;
        state.lease.deadline = self.bounded(state.lease.deadline);
        state.lease.keeps_out_until =
            Some(Instant::now() + self.client.options.drift.certain(span.as_duration()));
        state.schedule(self.client.now());
    }

    /// Returns true while others must be kept out, by the slower clock (C41): the hold is then left to expire.
    pub(crate) fn keeps_out(&self) -> bool {
        self.state().lease.keeps_out_until.is_some_and(|until| Instant::now() < until)
    }

    /// Returns the deadline, at most one TTL after the bound of renewing: with `at_most` the run ends, and the lock
    /// stays held (C41).
    fn bounded(&self, deadline: Moment) -> Moment {
        let end = self.bound.get().map(|bound| bound.ends);
        end.filter(|end| deadline.has_reached(*end)).unwrap_or(deadline)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

#[cfg(test)]
pub(super) mod tests;
