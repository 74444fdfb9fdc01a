//! The place of an acquisition on the server.

use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};
use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, timeout_at};

use super::local_queue::{LineAnswers, Outage};
use crate::backend::{Attempt, FALLBACK_POLL, WaiterEvent, WaiterEvents, WaiterHandle};
use crate::engine::client::{Store, contained};
use crate::engine::give_back::{ClaimEvent, Janitor, OwnedClaim};
use crate::model::{BackendError, Claim, Contention, Kind, Moment};

/// A claim with its place in the server's queue: its waiter, and its request in flight.
///
/// A place belongs to an acquisition. When the head of a client's line leaves, it passes the place to the next head, which
/// continues with the same owner (C16) and the request in flight. Dropped, it withdraws its claim (C19).
pub(crate) struct ServerPlace {
    // Dropped before the claim is withdrawn.
    request: Option<Request>,
    /// The last answer, if it was "busy" and no request followed.
    busy: Option<Box<Busy>>,
    channel: Option<(WaiterHandle, WaiterEvents)>,
    /// The answers of its line.
    pub(super) answers: Option<Arc<LineAnswers>>,
    pub(super) claim: Claim,
    pub(super) owned: OwnedClaim,
    /// A time at which the server had surely not granted the claim yet, the latest that is known.
    not_granted_at: Instant,
}

/// A request in flight. It progresses whenever it is polled.
struct Request {
    /// The claim as it was sent.
    claim: Claim,
    asked: Moment,
    sent: Instant,
    /// The runtime whose timers and connections the request may use.
    runtime: Option<Id>,
    /// In a mutex only to be `Sync`; it is never locked.
    answer: Mutex<BoxFuture<'static, Result<Attempt, BackendError>>>,
}

/// A "busy" answer of the server.
#[derive(Clone)]
pub(super) struct Busy {
    pub(super) seen: Contention,
    /// Read before the request was sent.
    pub(super) asked: Moment,
    pub(super) answered: Instant,
}

/// The server's answer to a request.
pub(super) struct Answer {
    pub(super) attempt: Result<Attempt, BackendError>,
    /// Read before the request was sent.
    pub(super) asked: Moment,
    /// True if the claim has another TTL or label than the request.
    pub(super) is_outdated: bool,
}

impl ServerPlace {
    pub(crate) fn new(claim: Claim, janitor: &Arc<Janitor>) -> Self {
        let owned = OwnedClaim::new(&claim, janitor.clone());
        let (request, busy, channel, answers) = Default::default();
        Self { request, busy, channel, answers, claim, owned, not_granted_at: Instant::now() }
    }

    /// Returns true if nothing has been sent.
    pub(crate) fn is_new(&self) -> bool {
        self.owned.is_absent()
    }

    /// Returns true if the place serves the acquisition with the place `new`. A repeated request may change its TTL and
    /// label, but not its kind, nor its owner, which marks a candidate (C40).
    ///
    /// A hold that allows others beside it must be granted after its acquisition began. Otherwise another may have been
    /// granted between the two, with a greater token (C22).
    ///
    /// No earlier request that may be granted must have asked for a longer hold, which would delay the others if its new
    /// holder dies (L1).
    pub(crate) fn suits(&self, new: &ServerPlace) -> bool {
        let sort = |claim: &Claim| (claim.kind, claim.owner.is_candidate());
        let is_in_order =
            self.claim.kind == Kind::Exclusive || self.not_granted_at >= new.not_granted_at;
        let is_longer = |claim: &Claim| claim.ttl > new.claim.ttl;
        let lasts_longer = self.request.as_ref().is_some_and(|sent| is_longer(&sent.claim))
            || self.owned.is_unresolved() && is_longer(&self.claim);
        sort(&self.claim) == sort(&new.claim) && is_in_order && !lasts_longer
    }

    /// Returns the same place, for the acquisition that made `claim`.
    pub(crate) fn taken_by(mut self, claim: Claim) -> Self {
        self.owned.keep_for(claim.ttl.as_duration());
        if (self.claim.ttl, &self.claim.label) != (claim.ttl, &claim.label) {
            self.busy = None;
        }
        self.claim = Claim { owner: self.claim.owner, ..claim };
        // The request's runtime may be gone, or not be driven.
        if self.request.as_ref().is_some_and(|request| request.runtime != current_runtime()) {
            self.give_up();
        }
        self
    }

    /// Sends a request unless one is in flight; returns the time of sending.
    pub(super) fn ask(&mut self, store: &Arc<Store>, waits: bool) -> Instant {
        if let Some(request) = &self.request {
            return request.sent;
        }
        let (asked, sent, runtime) = (store.now(), Instant::now(), current_runtime());
        self.busy = None;
        if self.is_new() {
            self.not_granted_at = sent;
        }
        if waits && self.channel.is_none() {
            self.channel = Some(WaiterHandle::channel());
        }
        self.owned.note(ClaimEvent::Asked);
        self.answers.iter().for_each(|answers| answers.asked(sent));
        let waiter = self.channel.as_ref().map(|(waiter, _)| waiter.clone());
        let (store, claim) = (store.clone(), self.claim.clone());
        let answer = async move {
            let asked = async { store.backend.acquire(&claim, waiter.as_ref()).await };
            contained(store.name(), asked).await
        };
        let answer = Mutex::new(answer.boxed());
        self.request = Some(Request { claim: self.claim.clone(), asked, sent, runtime, answer });
        sent
    }

    /// Tells the line of an outage: its next head does not bear it anew (C17).
    pub(super) fn fails(&self, outage: Option<Outage>) {
        self.answers.iter().for_each(|answers| answers.fails(outage.clone()));
    }

    /// Returns the answer to the request in flight; `None` if there is none by `end`.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request stays in flight.
    pub(super) async fn answer(&mut self, end: Instant) -> Option<Answer> {
        let request = self.request.as_mut()?;
        let answer = request.answer.get_mut().unwrap_or_else(PoisonError::into_inner);
        let attempt = timeout_at(end, answer).await.ok()?;
        let Request { claim, asked, sent, .. } = self.request.take()?;
        if !attempt.as_ref().is_err_and(BackendError::is_transient) {
            let busy = match &attempt {
                Ok(Attempt::Busy(seen)) => Some(seen),
                Ok(Attempt::Granted(_)) | Err(_) => None,
            };
            self.answers.iter().for_each(|answers| answers.answered(busy));
        }
        let is_outdated = (claim.ttl, &claim.label) != (self.claim.ttl, &self.claim.label);
        if let Ok(Attempt::Busy(_)) = &attempt {
            // The backend may answer from its last look.
            let seen = sent.checked_sub(FALLBACK_POLL).unwrap_or(self.not_granted_at);
            self.not_granted_at = self.not_granted_at.max(seen);
        }
        if let (Ok(Attempt::Busy(seen)), true, false) =
            (&attempt, self.channel.is_some(), is_outdated)
        {
            let busy = Busy { seen: seen.clone(), asked, answered: Instant::now() };
            self.busy = Some(Box::new(busy));
        }
        Some(Answer { attempt, asked, is_outdated })
    }

    /// Returns the last answer, if it was "busy" and no request followed: the place in the queue is still valid.
    pub(super) fn last_busy(&self) -> Option<&Busy> {
        self.busy.as_deref()
    }

    /// Gives up the request in flight: its outcome is unknown.
    pub(super) fn give_up(&mut self) {
        self.request = None;
        self.owned.note(ClaimEvent::Unanswered);
    }

    /// Waits for a message of the server. After it an earlier "busy" is not valid.
    pub(super) async fn event(&mut self) -> WaiterEvent {
        let Some((_, events)) = &self.channel else { return pending().await };
        let event = events.next().await;
        self.busy = None;
        event
    }
}

fn current_runtime() -> Option<Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

impl fmt::Debug for ServerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerPlace")
            .field("owned", &self.owned)
            .field("in_flight", &self.request.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::shared::Shared;
    use super::*;
    use crate::memory::MemoryBackend;
    use crate::model::LockRequest;
    use crate::{ClientOptions, LockClient};

    /// L1: a request in flight may be granted for its own TTL.
    #[tokio::test]
    async fn l1_a_request_in_flight_gives_no_longer_hold() {
        let shared = Shared::new(Arc::new(MemoryBackend::new()), ClientOptions::new());
        let place = |seconds| {
            let ttl = Duration::from_secs(seconds);
            let claim = LockRequest::new("a").ttl(ttl).claim().expect("a claim");
            ServerPlace::new(claim, &shared.janitor)
        };
        let mut first = place(60);
        assert!(first.suits(&place(5)), "nothing was asked for");
        first.ask(&shared.store, true);
        assert!(!first.suits(&place(5)) && first.suits(&place(60)));
        first.give_up();
        assert!(!first.suits(&place(5)), "it may come late");
    }

    /// C28: a head that leaves after it read its message leaves no "busy" for the next head to wait on.
    #[tokio::test]
    async fn c28_a_message_ends_what_was_answered_before() {
        let store = MemoryBackend::new();
        let holder = LockClient::new(store.clone()).acquire("a").await.expect("a free lock");
        let shared = Shared::new(Arc::new(store), ClientOptions::new());
        let claim = LockRequest::new("a").ttl(Duration::from_secs(9)).claim().expect("a claim");
        let mut place = ServerPlace::new(claim, &shared.janitor);
        let sent = place.ask(&shared.store, true);
        let answer = place.answer(sent + Duration::from_secs(9)).await.expect("an answer");
        assert!(matches!(answer.attempt, Ok(Attempt::Busy(_))) && place.last_busy().is_some());
        place.channel.as_ref().expect("it waits").0.try_again();
        assert!(matches!(place.event().await, WaiterEvent::TryAgain));
        assert!(place.last_busy().is_none());
        drop(holder);
    }
}
