//! Renewals of a hold: their times, their answers, and the next duty.

use std::time::Duration;

use super::{Hold, State};
use crate::engine::client::Unanswered;
use crate::model::{BackendError, Drift, Lease, Moment, Renewal, Ttl, random};

/// Delay before the renewal of a grant for less than was asked.
pub(super) const SHORT_GRANT_RENEWED_AFTER: Duration = Duration::from_millis(100);

impl Hold {
    /// Notes that the holder is about to ask for an extension. From now on renewals ask for `ttl` if it is longer
    /// than before. A shorter `ttl` is a proof, and makes no renewal shorter (C10). Without an answer, the server may
    /// keep the hold for `ttl`, so the cleanup lasts as long.
    pub(crate) fn extending(&self, ttl: Ttl) {
        let mut state = self.state();
        state.lease.asked = state.lease.asked.max(ttl);
    }

    /// Notes an extension that the holder asked for.
    pub(crate) fn extended(&self, asked: Moment, ttl: Ttl, granted: Duration) {
        let answered = self.confirmed(&mut self.state(), asked, ttl, granted);
        drop(answered);
    }

    /// Notes the answer to a renewal.
    pub(crate) fn renewed(&self, asked: Moment, ttl: Ttl, granted: Duration) {
        let mut state = self.state();
        let late = self.client.now().since(state.due_at);
        state.renewing = false;
        let answered = self.confirmed(&mut state, asked, ttl, granted);
        let token = state.lease.token;
        drop(state);
        drop(answered);
        self.client.telemetry.renewed(&self.name, token, late);
    }

    /// Notes that the server keeps the hold for `granted` from after `asked`, in answer to a request for `ttl`. A
    /// hold that is over stays over, and a deadline never moves back. Returns the hold's part in an outage, for a drop
    /// without the state.
    fn confirmed(
        &self,
        state: &mut State,
        asked: Moment,
        ttl: Ttl,
        granted: Duration,
    ) -> Option<Unanswered> {
        // C10: lost is final, whatever a later answer says.
        if self.reason.get().is_some() || self.client.now().has_reached(state.lease.deadline) {
            return None;
        }
        let deadline = self.client.options.drift.deadline(asked, ttl, granted);
        let deadline = match state.lease.keeps_out_until {
            // A renewal for the whole span may have been in flight when the run began.
            Some(_) => self.bounded(deadline),
            None => deadline,
        };
        if deadline.has_reached(state.lease.deadline) {
            (state.lease.deadline, state.lease.granted) = (deadline, Ttl::kept(granted));
        }
        (state.is_short, state.renewal_error) = (false, None);
        state.schedule(asked);
        state.unanswered.take()
    }

    /// Notes a renewal without an answer.
    pub(crate) fn renewal_failed(&self, error: &BackendError) {
        let mut state = self.state();
        state.repeat_soon(self.client.now());
        state.renewal_error = Some(error.clone());
        // A hold that is over is no part of an outage.
        if state.unanswered.is_none() && self.reason.get().is_none() {
            state.unanswered = Some(Unanswered::new(self.client.telemetry.clone()));
        }
        let token = state.lease.token;
        drop(state);
        self.client.telemetry.renewal_failed(&self.name, token, error);
    }

    /// Notes that the renewal in flight was given up with its task.
    pub(crate) fn renewal_given_up(&self) {
        self.state().repeat_soon(self.client.now());
    }

    /// Returns the renewer's duty for this hold at `now`.
    pub(crate) fn duty(&self, now: Moment) -> Duty {
        if self.is_over_at(now) {
            return Duty::Over;
        }
        let state = self.state();
        let expires_in = now.until(state.lease.deadline);
        // C13: the hold is not renewed after the bound. A short grant first gets its TTL.
        let bound_reached = self.has_reached_bound(now);
        if state.renewing || (bound_reached && !state.is_short) {
            Duty::Watch(expires_in)
        } else if now.has_reached(state.renew_at) {
            Duty::Renew
        } else if now.has_reached(state.batchable_at) {
            Duty::RenewInBatch(expires_in.min(now.until(state.renew_at)))
        } else {
            Duty::Watch(expires_in.min(now.until(state.renew_at)))
        }
    }

    /// Returns true if a renewal is in flight.
    pub(crate) fn is_renewing(&self) -> bool {
        self.state().renewing
    }

    /// Begins a renewal. There is one at a time.
    pub(crate) fn begin_renewal(&self) -> Renewal {
        let mut state = self.state();
        state.renewing = true;
        let (ttl, now) = (state.lease.asked, self.client.now());
        // C13: no TTL makes the hold outlast its bound.
        let ttl = self.bound.get().map_or(ttl, |bound| bound.limit(ttl, now).unwrap_or(Ttl::MIN));
        Renewal::new(&state.lease, ttl)
    }

    /// Returns the longest time of one renewal: a sixth of the TTL (C12), or a third of the remaining time if that is
    /// less, as after a pushed grant. A busy server answers within this time, and a second try remains.
    pub(crate) fn attempt_limit(&self) -> Duration {
        let state = self.state();
        state.renew_interval.min(state.lease.asked.as_duration() / 6)
    }
}

impl State {
    /// Gives up the renewal in flight: the next try is soon, and the deadline stays.
    fn repeat_soon(&mut self, now: Moment) {
        let retry_at = now.after(self.renew_interval / 4);
        (self.renewing, self.renew_at, self.batchable_at) = (false, retry_at, retry_at);
    }

    /// Plans the next renewal at a third of the time left at `asked`, or of the TTL that renewals ask for if that is
    /// less. It comes a little earlier by chance, so that many clients that acquired together do not renew together.
    ///
    /// A short grant is renewed soon, but not at once: most holds are over by then, so a hand-off needs no further
    /// request.
    pub(super) fn schedule(&mut self, asked: Moment) {
        let left = asked.until(self.lease.deadline).min(self.lease.granted);
        self.renew_interval = left.min(self.lease.asked.as_duration()) / 3;
        let due = if self.is_short {
            self.renew_interval.min(SHORT_GRANT_RENEWED_AFTER)
        } else {
            self.renew_interval
        };
        self.due_at = asked.after(due.mul_f64(random::within(0.9..1.0)));
        self.renew_at = self.due_at;
        self.batchable_at = asked.after(due * 3 / 4);
    }

    /// Plans the renewal of a passed hold for the time at which its former holder would have renewed it.
    pub(super) fn schedule_passed(&mut self, now: Moment, drift: Drift) {
        let left = now.until(self.lease.deadline);
        let due_at = now.after(left.saturating_sub(least_passed(&self.lease, drift)));
        if self.due_at.has_reached(due_at) {
            (self.due_at, self.renew_at, self.batchable_at) = (due_at, due_at, due_at);
        }
    }
}

/// Returns the least time that a hold has when its renewal is due, two thirds of the server's grant. A passed hold
/// bears an outage as long as each other hold does.
pub(crate) fn least_passed(lease: &Lease, drift: Drift) -> Duration {
    let ttl = lease.granted.min(lease.asked.as_duration());
    drift.validity(ttl).saturating_sub(ttl / 3)
}

/// The renewer's duty for a hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Nothing: the hold is over.
    Over,
    /// Renew now.
    Renew,
    /// Renew along with others, or look again after the span.
    RenewInBatch(Duration),
    /// Look again after the span.
    Watch(Duration),
}
