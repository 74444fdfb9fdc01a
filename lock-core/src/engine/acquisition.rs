//! One acquisition, from before its first byte to its hold.

use std::collections::VecDeque;
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
use super::together::{Companion, GrantedCompanion, Together};
use super::wait::{Limits, Waiting};
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
    shared: Arc<Shared>,
    claim: Claim,
    owned: OwnedClaim,
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
        self.run_before(request, &mut Behind::default()).await
    }

    /// The same, of one that others are [behind](Behind).
    pub(crate) async fn run_before(
        &mut self,
        request: &LockRequest,
        behind: &mut Behind,
    ) -> Result<Granted, LockError> {
        let report = self.shared.telemetry.acquiring(&self.claim.name);
        let outcome = self.acquire_unless_closed(request, behind).instrument(report.span()).await;
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
    async fn acquire_unless_closed(
        &mut self,
        request: &LockRequest,
        behind: &mut Behind,
    ) -> Result<Granted, LockError> {
        let mut closed = self.shared.closed.subscribe();
        let name = self.claim.name.clone();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(LockError::Closed { name }),
            acquired = self.acquire_in_turn(request, behind) => acquired,
        }
    }

    async fn acquire_in_turn(
        &mut self,
        request: &LockRequest,
        behind: &mut Behind,
    ) -> Result<Granted, LockError> {
        let place = self.turn(request.wait_policy()).await?;
        let (turn, wait) = match self.take_place(place, request)? {
            ControlFlow::Break(granted) => return Ok(granted),
            ControlFlow::Continue(asks) => asks,
        };
        let lease = self.ask(wait, request, behind).await?;
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
    async fn ask(
        &mut self,
        wait: Wait,
        request: &LockRequest,
        behind: &mut Behind,
    ) -> Result<Lease, LockError> {
        let mut together = behind.together(wait);
        let options = &self.shared.options;
        let limits = Limits { request_timeout: options.request_timeout, drift: options.drift };
        let waiting = Waiting::new(&*self.shared.backend, &*options.clock, limits)
            .beside(&self.shared.renewer);
        let (listener, state) = (request.listener(), self.owned.state());
        let lease = waiting.acquire(&self.claim, wait, listener, state, &mut together).await?;
        let (refused, granted) = (together.has_refused(), together.into_granted());
        behind.next_was_refused = refused;
        behind.were_granted(granted)?;
        Ok(lease)
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

    /// Its part in the request of one before it. `None` if others of its client are in line: then it goes into the
    /// line itself, once it is its turn (C26).
    fn companion(&mut self, wait: Wait) -> Option<Companion<'_>> {
        let turn = match wait.waits() && self.owned.is_absent() {
            true => Some(self.shared.local_queue.turn_if_alone(&self.claim.name)?),
            false => None,
        };
        Some(Companion { claim: &self.claim, state: self.owned.state(), turn })
    }

    /// Was granted in the request of one before it.
    fn was_granted(self, granted: GrantedCompanion) -> Result<Acquired, LockError> {
        let GrantedCompanion { lease, turn, sent } = granted;
        let report = self.shared.telemetry.acquiring_since(&self.claim.name, sent);
        let hold = self.shared.hold(lease)?;
        report.ended(Ok(hold.lease().token));
        let succession = turn.filter(|_| self.hands_off()).map(Succession::begin);
        Ok(Acquired { hold, claim: self.owned, succession })
    }

    fn hands_off(&self) -> bool {
        let options = &self.shared.options;
        let passes = options.local_hand_off && !self.by_server;
        passes && self.shared.backend.capabilities().reserves_tokens
    }
}

/// The acquisitions behind one, of those that are made together (C39).
#[derive(Default)]
pub(crate) struct Behind {
    /// Those that are to be made yet, in order.
    pub(crate) waiting: VecDeque<Acquisition>,
    /// Those that were granted in the request of one before them, in order.
    pub(crate) acquired: Vec<Acquired>,
    /// Whether the last request stopped before the one that is made next: that one is asked for alone.
    next_was_refused: bool,
}

impl Behind {
    pub(crate) fn of(waiting: VecDeque<Acquisition>) -> Self {
        Self { waiting, ..Self::default() }
    }

    /// Those at the front, to go in one request with the one before them.
    fn together(&mut self, wait: Wait) -> Together<'_> {
        let takes_several = |first: &Acquisition| first.shared.backend.capabilities().takes_several;
        if self.next_was_refused || !self.waiting.front().is_some_and(takes_several) {
            return Together::default();
        }
        let companions = self.waiting.iter_mut().map_while(|next| next.companion(wait));
        Together::of(companions.collect())
    }

    fn were_granted(&mut self, granted: Vec<GrantedCompanion>) -> Result<(), LockError> {
        for granted in granted {
            let Some(next) = self.waiting.pop_front() else { break };
            self.acquired.push(next.was_granted(granted)?);
        }
        Ok(())
    }
}
