//! Waits for the turn of a claim: the one loop that all backends share.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::debug;

use super::local_queue::Turn;
use super::progress::Progress;
use super::server_place::{Answer, Busy, ServerPlace};
use super::shared::Shared;
use super::succession::Passed;
use crate::backend::{Attempt, Grant, WaiterEvent};
use crate::engine::client::{
    ClientOptions, waits_for_foreign_key, waits_for_other_number, waits_for_own_hold,
};
use crate::engine::give_back::ClaimEvent;
use crate::model::{
    BackendError, Claim, Contention, Lease, Listener, LockError, Moment, Outcome, Ttl, Wait,
};

impl Shared {
    /// Tries, and waits as the request says, until the claim is granted. At each await, the place has the claim's
    /// state on the server, so that this future can be dropped there.
    ///
    /// An acquisition that does not wait, or has no answer, ends within `limit`.
    ///
    /// The head of a line brings its turn. A head whose grant comes too late leaves the line, and goes on beside it. So
    /// the trouble of a head stops nobody behind it.
    pub(super) async fn acquire(
        &self,
        place: &mut ServerPlace,
        limit: Duration,
        wait: Wait,
        listener: &Listener<Contention>,
        turn: &mut Option<Turn<Passed>>,
    ) -> Result<Lease, LockError> {
        let progress = Progress::new(wait, limit).with_place(!place.is_new());
        let outage = turn.as_ref().and_then(|turn| turn.sight().outage());
        let mut progress = progress.in_outage(outage);
        if progress.outage().is_some() && progress.is_over_after_pause() {
            return Err(self.ended(progress, place, turn));
        }
        // C26: the answer to the previous head is valid for this one.
        let mut last_busy = place.last_busy().cloned();
        loop {
            let step = match last_busy.take() {
                Some(busy) => {
                    progress.busy(&busy);
                    Ok(AttemptOutcome::Busy { seen: busy.seen, is_outdated: false })
                }
                None => self.attempt(place, &mut progress).await,
            };
            let name = &place.claim.name;
            let mut asks_again = false;
            match step.map_err(|error| progress.refused(name, error))? {
                AttemptOutcome::Granted(lease) => return Ok(granted_to(turn, &progress, lease)),
                AttemptOutcome::Busy { seen, is_outdated } => {
                    turn.iter().for_each(Turn::is_refused);
                    listener.tell(&seen);
                    self.warn_if_due(&place.claim, &seen, &mut progress);
                    asks_again = is_outdated;
                }
                AttemptOutcome::Troubled if progress.is_late() => {
                    (place.answers, *turn) = (None, None);
                }
                AttemptOutcome::Troubled => place.fails(progress.outage()),
            }
            if progress.is_over() {
                return Err(self.ended(progress, place, turn));
            }
            if asks_again {
                continue;
            }
            if let Some(grant) = self.next_event(place, &progress).await
                && let Some(lease) = self.pushed_lease(place, &grant, &progress)
            {
                debug!(token = lease.token.get(), "handed over");
                place.owned.note(ClaimEvent::Granted);
                return Ok(granted_to(turn, &progress, lease));
            }
            if progress.is_over_after_pause() {
                return Err(self.ended(progress, place, turn));
            }
        }
    }

    /// Returns the error of an acquisition that ends in this state.
    fn ended(
        &self,
        progress: Progress,
        place: &ServerPlace,
        turn: &Option<Turn<Passed>>,
    ) -> LockError {
        let seen_in_line = turn.as_ref().and_then(|turn| turn.sight().contention());
        progress.into_error(&place.claim, self.store.name(), seen_in_line)
    }

    /// Asks once, without a place in the server's queue. The place is new again if the server surely has nothing of it.
    pub(super) async fn ask_once(
        &self,
        place: &mut ServerPlace,
    ) -> Result<AttemptOutcome, LockError> {
        let mut progress = Progress::new(Wait::Never, self.store.options.request_timeout);
        let outcome = self.attempt(place, &mut progress).await;
        let outcome = outcome.map_err(|error| progress.refused(&place.claim.name, error))?;
        let failed = progress.outage().map(|(_, error)| error);
        if failed.is_some_and(|error| error.outcome() == Outcome::NotApplied) {
            place.owned.note(ClaimEvent::Refused);
        }
        Ok(outcome)
    }

    /// Asks once, or continues the request in flight, and notes the outcome. An error is a refusal, which is final.
    async fn attempt(
        &self,
        place: &mut ServerPlace,
        progress: &mut Progress,
    ) -> Result<AttemptOutcome, BackendError> {
        let sent = place.ask(&self.store, progress.waits());
        let this = progress.try_since(sent);
        place.answers.iter().for_each(|answers| answers.awaits_until(this.end));
        let Some(Answer { attempt, asked, is_outdated }) = place.answer(this.end).await else {
            // A try that our own end cut short is no failure: the next head may receive its answer.
            if this.is_whole {
                debug!("no answer, asking again");
                place.give_up();
            }
            progress.silent(this, self.store.name());
            return Ok(AttemptOutcome::Troubled);
        };
        match attempt {
            Ok(Attempt::Granted(grant)) => match self.lease(place, &grant, asked) {
                Some(lease) => {
                    place.owned.note(ClaimEvent::Granted);
                    Ok(AttemptOutcome::Granted(lease))
                }
                // The grant is not believed. It stays on the server, and the next try finds it.
                None => {
                    progress.granted_late(this);
                    Ok(AttemptOutcome::Troubled)
                }
            },
            Ok(Attempt::Busy(seen)) => {
                if !progress.waits() {
                    place.owned.note(ClaimEvent::Refused);
                }
                debug!(position = seen.position, ttl_left = ?seen.ttl_left, "busy");
                progress.busy(&Busy { seen: seen.clone(), asked, answered: Instant::now() });
                Ok(AttemptOutcome::Busy { seen, is_outdated })
            }
            Err(error) if error.is_transient() => {
                debug!(%error, "no answer, asking again");
                if error.outcome() == Outcome::Unknown {
                    place.owned.note(ClaimEvent::Unanswered);
                }
                progress.failed(this, error);
                Ok(AttemptOutcome::Troubled)
            }
            Err(error) => Err(error),
        }
    }

    /// Warns operators of a wait that may never end by itself.
    fn warn_if_due(&self, claim: &Claim, seen: &Contention, progress: &mut Progress) {
        match (progress.warning_due(claim.kind), seen.disagrees(claim.kind)) {
            // C33: the users of the lock disagree, unless a deploy changes the number.
            (Some(waited), Some(other)) => {
                waits_for_other_number(self.store.name(), claim, other, waited);
            }
            // C49: the holder is a key that nobody may ever delete.
            (Some(waited), None) => waits_for_foreign_key(self.store.name(), &claim.name, waited),
            (None, _) => {}
        }
        // C43: a task may wait for itself.
        if let Some(waited) = progress.become_long()
            && self.held_labels.has(claim)
        {
            waits_for_own_hold(self.store.name(), claim, waited);
        }
    }

    /// Sleeps until the next look at the server is due, or a message comes; returns a pushed grant.
    async fn next_event(&self, place: &mut ServerPlace, progress: &Progress) -> Option<Grant> {
        let pause = progress.pause(self.store.backend.capabilities().wakeup);
        match timeout(pause, place.event()).await {
            Ok(WaiterEvent::Granted(grant)) => Some(grant),
            Ok(WaiterEvent::TryAgain) | Err(_) => None,
        }
    }

    /// Returns the lease of a grant that answered a request sent at `asked` (C5); `None` if it came too late.
    fn lease(&self, place: &ServerPlace, grant: &Grant, asked: Moment) -> Option<Lease> {
        let (claim, ClientOptions { drift, clock, .. }) = (&place.claim, &self.store.options);
        let deadline = drift.deadline(asked, claim.ttl, grant.ttl);
        (!clock.now().has_reached(deadline)).then(|| Lease {
            name: claim.name.clone(),
            owner: claim.owner,
            token: grant.token,
            granted_as: grant.token,
            asked: claim.ttl,
            granted: Ttl::kept(grant.ttl),
            deadline,
            kind: claim.kind,
            slots: grant.slots.clone(),
            unresolved: place.owned.is_unresolved(),
            keeps_out_until: None,
            bound: None,
        })
    }

    /// Returns the lease of a pushed grant.
    ///
    /// The server made the grant `at − seen` after it answered our last request, and it answered after we sent that
    /// request. So the grant was made at least that span, less the drift of the clocks, after the sending. It was
    /// also made before its receipt, which bounds the effect of a step of the server's clock. A grant from before
    /// that answer was over when the server answered "busy".
    fn pushed_lease(
        &self,
        place: &ServerPlace,
        grant: &Grant,
        progress: &Progress,
    ) -> Option<Lease> {
        let (asked, seen) = progress.last_answer()?;
        let passed = grant.at?.0.checked_sub(seen.0)?;
        let ClientOptions { drift, clock, .. } = &self.store.options;
        let granted_at = asked.after(drift.validity(passed));
        let received = clock.now();
        let since = if received.has_reached(granted_at) { granted_at } else { received };
        self.lease(place, grant, since)
    }
}

/// Tells the line that its head was granted the lock.
fn granted_to(turn: &Option<Turn<Passed>>, progress: &Progress, lease: Lease) -> Lease {
    let allows_others = lease.kind.together() > 1;
    turn.iter().for_each(|turn| turn.is_granted(progress.has_waited(), allows_others));
    lease
}

/// Outcome of one attempt.
pub(super) enum AttemptOutcome {
    Granted(Lease),
    /// The place may have another TTL or label than the claim.
    Busy {
        seen: Contention,
        is_outdated: bool,
    },
    /// No usable answer.
    Troubled,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use tokio::runtime::Handle;
    use tokio::time::{advance, pause};

    use super::*;
    use crate::memory::MemoryBackend;
    use crate::model::LockRequest;

    /// C12: renewals of all holds wait for the registry while anything else uses it.
    #[tokio::test]
    async fn c43_a_long_wait_looks_for_its_own_hold_without_the_registry() {
        pause();
        let shared = Shared::new(Arc::new(MemoryBackend::new()), ClientOptions::new());
        let claim = LockRequest::new("a").label("me").claim().expect("a claim");
        let mut progress = Progress::new(Wait::Forever, Duration::from_secs(2));
        advance(Duration::from_secs(2)).await;
        let (registry, runtime) = (shared.renewer.registry(), Handle::current());
        thread::scope(|threads| {
            let looks = threads.spawn(|| {
                let _runtime = runtime.enter();
                let seen = Contention::unknown();
                shared.warn_if_due(&claim, &seen, &mut progress);
            });
            let bound = std::time::Instant::now() + Duration::from_secs(10);
            while !looks.is_finished() && std::time::Instant::now() < bound {
                thread::yield_now();
            }
            let has_looked = looks.is_finished();
            drop(registry);
            assert!(has_looked, "the look waits for the registry");
        });
        assert!(progress.become_long().is_none(), "it was no long wait");
    }
}
