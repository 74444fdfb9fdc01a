//! One acquisition, from before its first byte to its hold.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::Instrument;

use super::hold::Hold;
use super::janitor::InFlight;
use super::local_queue::Turn;
use super::owned_claim::OwnedClaim;
use super::shared::{Acquired, Shared};
use super::succession::{PassedHold, Succession};
use crate::model::{Capabilities, Claim, Kind, Lease, LockError, LockName, LockRequest, Wait};

/// Where an acquisition stands among those of its client, and how long it may wait from then on.
#[expect(
    clippy::large_enum_variant,
    reason = "it lasts for one step, and to box it would cost more"
)]
enum Place {
    /// In no line: it does not wait.
    Beside(Wait),
    /// At the head of the line.
    Head(Turn<PassedHold>, Wait),
    /// At the head of the line, and passed the hold of the one before it.
    Successor(Turn<PassedHold>, PassedHold),
}

impl Place {
    fn of(turn: Turn<PassedHold>, passed: Option<PassedHold>, wait: Wait) -> Self {
        match passed {
            Some(passed) => Self::Successor(turn, passed),
            None => Self::Head(turn, wait),
        }
    }
}

/// A hold, and to whom it may pass.
pub(crate) type Granted = (Arc<Hold>, Option<Succession>);

/// What is kept while the server is asked: the turn, of one that is in line, and how long it may wait.
type Asking = (Option<Turn<PassedHold>>, Wait);

/// An acquisition under way. Made before the first byte is sent; dropped at any point, it takes
/// back whatever the server may have granted by then (C19).
pub(crate) struct Acquisition {
    pub(super) shared: Arc<Shared>,
    pub(super) claim: Claim,
    pub(super) owned: OwnedClaim,
    /// Whether no hold passes to it or from it within this client: each hold of a kind that others may hold
    /// beside is a grant of the server.
    by_server: bool,
    /// A shutdown waits for it.
    _in_flight: InFlight,
}

impl Acquisition {
    pub(crate) fn new(shared: Arc<Shared>, claim: Claim) -> Result<Self, LockError> {
        shared.admit(&claim.name)?;
        let Capabilities { kinds, backend, .. } = shared.backend.capabilities();
        if !kinds.has(claim.kind) {
            let what = match claim.kind {
                Kind::Exclusive => "grant exclusive holds",
                Kind::Shared => "grant shared holds",
                Kind::OneOf(_) => "grant permits",
            };
            return Err(LockError::Unsupported { name: claim.name, backend, what });
        }
        let _in_flight = shared.janitor.begin();
        let owned = shared.own(claim.name.clone(), claim.owner, claim.ttl.as_duration());
        let by_server = claim.kind != Kind::Exclusive;
        Ok(Self { shared, claim, owned, by_server, _in_flight })
    }

    /// The hold is the server's own grant, and goes back to it: those who look see each holder.
    pub(crate) fn granted_by_server(self) -> Self {
        Self { by_server: true, ..self }
    }

    /// The lock that is to be acquired.
    pub(crate) fn name(&self) -> &LockName {
        &self.claim.name
    }

    /// Acquires, and tells of it. [`acquired`](Self::acquired) makes of it what a guard keeps.
    ///
    /// It borrows, since a future that took the acquisition by value would have room for it in each of its layers.
    pub(crate) async fn run(&mut self, request: &LockRequest) -> Result<Granted, LockError> {
        let report = self.shared.telemetry.acquiring(&self.claim.name);
        let outcome = self.acquire_unless_closed(request).instrument(report.span()).await;
        // The wait in line is part of it.
        let waited = report.waited();
        let outcome = outcome.map_err(|error| match error {
            LockError::Timeout { name, contention, .. } => {
                LockError::Timeout { name, waited, contention }
            }
            other => other,
        });
        report.ended(outcome.as_ref().map(|(hold, _)| hold.lease().token));
        outcome
    }

    /// What is left of it once it was granted.
    pub(crate) fn acquired(self, (hold, succession): Granted) -> Acquired {
        Acquired { hold, claim: self.owned, succession }
    }

    /// Acquires, unless the client is shut down first.
    async fn acquire_unless_closed(&mut self, request: &LockRequest) -> Result<Granted, LockError> {
        let mut closed = self.shared.closed.subscribe();
        let name = self.claim.name.clone();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(LockError::Closed { name }),
            acquired = self.acquire_in_turn(request) => acquired,
        }
    }

    async fn acquire_in_turn(&mut self, request: &LockRequest) -> Result<Granted, LockError> {
        let place = self.turn(request.wait_policy()).await?;
        let (turn, wait) = match self.take_place(place, request)? {
            ControlFlow::Break(granted) => return Ok(granted),
            ControlFlow::Continue(asks) => asks,
        };
        let lease = self.ask(wait, request).await?;
        let succession = turn.filter(|_| self.hands_off()).map(Succession::begin);
        Ok((self.hold(lease, request)?, succession))
    }

    /// Holds what was passed to it, or goes on to ask the server.
    ///
    /// It takes the place by value: so no room is kept for it while the server is asked.
    fn take_place(
        &mut self,
        place: Place,
        request: &LockRequest,
    ) -> Result<ControlFlow<Granted, Asking>, LockError> {
        match place {
            Place::Beside(wait) => Ok(ControlFlow::Continue((None, wait))),
            Place::Head(turn, wait) => Ok(ControlFlow::Continue((Some(turn), wait))),
            Place::Successor(turn, passed) => {
                let (lease, claim, succession) = passed.take(self.claim.ttl, turn);
                self.owned = claim;
                Ok(ControlFlow::Break((self.hold(lease, request)?, Some(succession))))
            }
        }
    }

    /// Holds what was granted, or passed.
    fn hold(&self, lease: Lease, request: &LockRequest) -> Result<Arc<Hold>, LockError> {
        let hold = self.shared.hold(lease)?;
        request.max_hold_span().inspect(|span| hold.renew_for(*span));
        Ok(hold)
    }

    /// Asks the server, and waits for its grant.
    async fn ask(&mut self, wait: Wait, request: &LockRequest) -> Result<Lease, LockError> {
        let waiting = self.shared.waiting();
        waiting.acquire(&self.claim, wait, request.listener(), self.owned.state()).await
    }

    /// Waits to be first among this client's waiters (C26), or to be passed a hold of one of them.
    async fn turn(&self, wait: Wait) -> Result<Place, LockError> {
        match wait {
            Wait::Never | Wait::AtMost(Duration::ZERO) => Ok(Place::Beside(wait)),
            // A request of it has had no answer. If the lock is held for it, those in line wait for it.
            _ if !self.owned.is_absent() => Ok(Place::Beside(wait)),
            Wait::Forever => {
                let (turn, passed) = self.turn_or_hold().await;
                Ok(Place::of(turn, passed, wait))
            }
            Wait::AtMost(span) => {
                let started = Instant::now();
                let Ok((turn, passed)) = timeout(span, self.turn_or_hold()).await else {
                    let name = self.claim.name.clone();
                    return Err(LockError::Timeout { name, waited: span, contention: None });
                };
                // Never zero, which would not wait at all.
                let left = span.saturating_sub(started.elapsed()).max(Duration::from_nanos(1));
                Ok(Place::of(turn, passed, Wait::AtMost(left)))
            }
        }
    }

    async fn turn_or_hold(&self) -> (Turn<PassedHold>, Option<PassedHold>) {
        let turn = self.shared.local_queue.turn(&self.claim.name).await;
        if self.by_server {
            turn.ask_server();
            return (turn, None);
        }
        let passed = turn.passed().await;
        let now = self.shared.options.clock.now();
        // What is of no use is given back, and the server is asked.
        let passed = passed.filter(|passed| passed.suits(self.claim.ttl, now));
        (turn, passed)
    }

    fn hands_off(&self) -> bool {
        let options = &self.shared.options;
        let passes = options.local_hand_off && !self.by_server;
        passes && self.shared.backend.token_ranges().is_some()
    }
}
