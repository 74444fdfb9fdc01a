//! The place of an acquisition on the server.

use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};
use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, timeout_at};

use super::claim_state::ClaimEvent;
use super::containment::contained;
use super::local_queue::LineAnswers;
use super::owned_claim::OwnedClaim;
use crate::backend::{Attempt, DistributedLock, WaiterEvent, WaiterEvents, WaiterHandle};
use crate::model::{BackendError, Claim, Clock, Moment};

/// A claim with its place in the server's queue: where it is woken, and the request that is in flight.
///
/// It belongs to an acquisition. The head of a client's line that leaves passes it to the next head, which goes on with
/// the same owner (C16) and with the request in flight. Dropped, it leaves nothing behind (C19).
pub(crate) struct ServerPlace {
    // Dropped before the claim is withdrawn.
    request: Option<Request>,
    channel: Option<(WaiterHandle, WaiterEvents)>,
    /// Of the line that it belongs to.
    pub(super) answers: Option<Arc<LineAnswers>>,
    pub(super) claim: Claim,
    pub(super) owned: OwnedClaim,
}

/// A request that is in flight. It goes on whenever it is polled.
struct Request {
    /// The claim as it was sent.
    claim: Claim,
    asked: Moment,
    sent: Instant,
    /// The runtime whose timers and connections the request may use.
    runtime: Option<Id>,
    /// In a mutex to be `Sync`; it is never locked.
    answer: Mutex<BoxFuture<'static, Result<Attempt, BackendError>>>,
}

/// The server's answer to a request.
pub(super) struct Answer {
    pub(super) attempt: Result<Attempt, BackendError>,
    /// Read before the request was sent.
    pub(super) asked: Moment,
    /// Set if the claim has another TTL or label than the request.
    pub(super) is_outdated: bool,
}

impl ServerPlace {
    pub(crate) fn new(claim: Claim, owned: OwnedClaim) -> Self {
        Self { request: None, channel: None, answers: None, claim, owned }
    }

    /// Returns true if nothing was sent yet.
    pub(crate) fn is_new(&self) -> bool {
        self.owned.is_absent()
    }

    /// Returns true if the place serves `claim`. Asking again changes its TTL and label, never its kind, nor its owner, which
    /// tells a candidate (C40).
    pub(crate) fn suits(&self, claim: &Claim) -> bool {
        let sort = |claim: &Claim| (claim.kind, claim.owner.is_candidate());
        sort(&self.claim) == sort(claim)
    }

    /// The same place, for the acquisition that made `claim`.
    pub(crate) fn taken_by(mut self, claim: Claim) -> Self {
        self.owned.keep_for(claim.ttl.as_duration());
        self.claim = Claim { owner: self.claim.owner, ..claim };
        // Its runtime may be gone, or not be driven.
        if self.request.as_ref().is_some_and(|request| request.runtime != current_runtime()) {
            self.give_up();
        }
        self
    }

    /// Sends a request, unless one is in flight; returns when it was sent.
    pub(super) fn ask(
        &mut self,
        backend: &Arc<dyn DistributedLock>,
        clock: &dyn Clock,
        waits: bool,
    ) -> Instant {
        if let Some(request) = &self.request {
            return request.sent;
        }
        if waits && self.channel.is_none() {
            self.channel = Some(WaiterHandle::channel());
        }
        self.owned.state().note(ClaimEvent::Asked);
        self.answers.iter().for_each(|answers| answers.asked());
        let waiter = self.channel.as_ref().map(|(waiter, _)| waiter.clone());
        let (asked, sent, runtime) = (clock.now(), Instant::now(), current_runtime());
        let (backend, claim) = (backend.clone(), self.claim.clone());
        let answer = async move {
            let name = backend.capabilities().backend;
            contained(name, async { backend.acquire(&claim, waiter.as_ref()).await }).await
        };
        let answer = Mutex::new(answer.boxed());
        self.request = Some(Request { claim: self.claim.clone(), asked, sent, runtime, answer });
        sent
    }

    /// The answer to the request in flight; `None` if there is none by `end`.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request stays in flight.
    pub(super) async fn answer(&mut self, end: Instant) -> Option<Answer> {
        let request = self.request.as_mut()?;
        let answer = request.answer.get_mut().unwrap_or_else(PoisonError::into_inner);
        let attempt = timeout_at(end, answer).await.ok()?;
        let Request { claim, asked, .. } = self.request.take()?;
        if !attempt.as_ref().is_err_and(BackendError::is_transient) {
            self.answers.iter().for_each(|answers| answers.answered());
        }
        let is_outdated = (claim.ttl, &claim.label) != (self.claim.ttl, &self.claim.label);
        Some(Answer { attempt, asked, is_outdated })
    }

    /// Waits no longer for the request in flight: its outcome is not known.
    pub(super) fn give_up(&mut self) {
        self.request = None;
        self.owned.state().note(ClaimEvent::Unanswered);
    }

    /// Waits until the server tells of its turn.
    pub(super) async fn event(&self) -> WaiterEvent {
        match &self.channel {
            Some((_, events)) => events.next().await,
            None => pending().await,
        }
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
