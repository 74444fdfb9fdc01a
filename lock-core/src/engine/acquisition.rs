//! One acquisition, from before its first byte to its hold.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use tracing::Instrument;

use super::hold::Hold;
use super::janitor::InFlight;
use super::local_queue::{Outage, Turn};
use super::progress::Progress;
use super::server_place::{Busy, ServerPlace};
use super::shared::{Acquired, Shared};
use super::succession::{Passed, Succession};
use super::tries::TryTurn;
use crate::model::{
    Capabilities, Claim, Contention, Kind, Lease, LockError, LockName, LockRequest, Wait,
};

/// A hold, and its succession: the way in which it passes to the next task.
pub(crate) type Granted = (Arc<Hold>, Option<Succession>);

/// The head's turn, and what was passed to it.
type TurnAndPassed = (Turn<Passed>, Option<Passed>);

/// An acquisition in flight. It is made before the first byte is sent. Dropped at any point, it withdraws whatever
/// the server may have granted by then (C19).
pub(crate) struct Acquisition {
    pub(super) shared: Arc<Shared>,
    pub(super) place: ServerPlace,
    /// True if no hold passes to it or from it within this client: a hold that allows others beside it is always a
    /// grant of the server.
    by_server: bool,
    /// A shutdown waits until this is dropped.
    _in_flight: InFlight,
}

impl Acquisition {
    pub(crate) fn new(shared: Arc<Shared>, claim: Claim) -> Result<Self, LockError> {
        shared.admit(&claim.name)?;
        shared.options.validity(claim.ttl)?;
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
        let by_server = claim.kind != Kind::Exclusive;
        let place = new_place(&shared, claim);
        Ok(Self { shared, place, by_server, _in_flight })
    }

    /// Makes the hold the server's own grant, which is released on the server: so observers see each holder.
    pub(crate) fn granted_by_server(self) -> Self {
        Self { by_server: true, ..self }
    }

    /// Returns the lock to acquire.
    pub(crate) fn name(&self) -> &LockName {
        &self.place.claim.name
    }

    /// Acquires, and reports the outcome. [`acquired`](Self::acquired) turns the result into the parts of a guard.
    ///
    /// Borrows the acquisition: a future that took it by value would have room for it in each of its layers.
    pub(crate) async fn run(&mut self, request: &LockRequest) -> Result<Granted, LockError> {
        let report = self.shared.telemetry.acquiring(&self.place.claim.name);
        let outcome = self.acquire_unless_closed(request).instrument(report.span()).await;
        // The wait in line is included.
        let outcome = outcome.map_err(|error| error.after(report.waited()));
        report.ended(outcome.as_ref().map(|(hold, _)| hold.token()));
        outcome
    }

    /// Turns a granted acquisition into the parts of a guard.
    pub(crate) fn acquired(self, (hold, succession): Granted) -> Acquired {
        Acquired { hold, claim: self.place.owned, succession }
    }

    /// Acquires, unless the client is shut down first.
    async fn acquire_unless_closed(&mut self, request: &LockRequest) -> Result<Granted, LockError> {
        let mut closed = self.shared.closed.subscribe();
        let name = self.place.claim.name.clone();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(LockError::Closed { name }),
            acquired = self.acquire_in_turn(request) => acquired,
        }
    }

    async fn acquire_in_turn(&mut self, request: &LockRequest) -> Result<Granted, LockError> {
        let began = Instant::now();
        let wait = self.shared.driven(self.name(), request.wait_policy()).await?;
        // A claim with a request that was never answered does not wait in line: the server may hold the lock for it,
        // and then the line waits for this claim.
        if !wait.waits() || !self.place.is_new() {
            let lease = match self.place.is_new() && self.place.claim.kind == Kind::Exclusive {
                true => self.try_in_turn(wait, request, began).await?,
                false => self.ask(wait, request, began).await?,
            };
            return Ok((self.hold(lease, request)?, None));
        }
        let joined = Instant::now();
        let (turn, wait) = self.turn(wait).await?;
        let Some((turn, passed)) = turn else {
            let lease = self.ask(wait, request, began).await?;
            return Ok((self.hold(lease, request)?, None));
        };
        match passed {
            Some(Passed::Hold(passed)) => {
                let (lease, claim, succession) = passed.take(self.place.claim.ttl, turn);
                self.place.owned = claim;
                return Ok((self.hold(lease, request)?, Some(succession)));
            }
            Some(Passed::Place(place)) => self.place = place.taken_by(self.place.claim.clone()),
            None => {}
        }
        let outage = turn.answers().outage_since(joined);
        let (lease, turn) = self.ask_as_head(turn, outage, wait, request).await?;
        let succession = turn.filter(|_| self.hands_off()).map(Succession::begin);
        Ok((self.hold(lease, request)?, succession))
    }

    /// Asks the server once, unless another try of this client finds meanwhile that the lock is busy.
    async fn try_in_turn(
        &mut self,
        wait: Wait,
        request: &LockRequest,
        began: Instant,
    ) -> Result<Lease, LockError> {
        let Self { shared, place, .. } = self;
        let limit = shared.options.request_timeout;
        let (name, one) = (place.claim.name.clone(), shared.tries.begin(&place.claim.name));
        let mut progress = Progress::new(wait, limit);
        // C17: a try that nobody polls does not keep the others from asking in time.
        let asking = match timeout_at(began + limit / 2, one.turn()).await {
            Ok(TryTurn::Ask(asking)) => Some(asking),
            Ok(TryTurn::Busy(seen)) => {
                request.listener().tell(&seen);
                let (asked, answered) = (shared.options.clock.now(), Instant::now());
                progress.busy(&Busy { seen, asked, answered });
                return Err(progress.into_error(&name, shared.name()));
            }
            Err(_) => None,
        };
        // C17: the wait for the turn is included.
        let waiting = shared.waiting_within(limit.saturating_sub(began.elapsed()));
        let asked = waiting.acquire(place, wait, request.listener()).await;
        match (asking, asked.as_ref().map_err(LockError::contention)) {
            (Some(asking), Ok(_)) => asking.granted(),
            (Some(asking), Err(Some(seen))) => asking.busy(seen.clone()),
            (Some(_), Err(None)) | (None, _) => {}
        }
        asked
    }

    /// Asks the server for the line. If this ends without a grant, the next head takes over the place.
    async fn ask_as_head(
        &mut self,
        turn: Turn<Passed>,
        outage: Option<Outage>,
        wait: Wait,
        request: &LockRequest,
    ) -> Result<(Lease, Option<Turn<Passed>>), LockError> {
        self.place.answers = Some(turn.answers());
        let mut head = Head { acquisition: self, turn: Some(turn) };
        let Acquisition { shared, place, .. } = &mut *head.acquisition;
        let waiting = shared.waiting().in_outage(outage);
        let asked = waiting.acquire(place, wait, request.listener()).await;
        match asked {
            Ok(lease) => Ok((lease, head.turn.take())),
            // The server would refuse the next head too.
            Err(error) if !error.is_busy() && !error.is_transient() => {
                head.turn = None;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Starts to hold the granted or passed lease, under the label of its claim.
    pub(super) fn held(&self, lease: Lease) -> Result<Arc<Hold>, LockError> {
        let hold = self.shared.hold(lease)?;
        hold.count_under(self.shared.held_labels.count(&self.place.claim));
        Ok(hold)
    }

    fn hold(&self, lease: Lease, request: &LockRequest) -> Result<Arc<Hold>, LockError> {
        let hold = self.held(lease)?;
        request.max_hold_span().inspect(|span| hold.renew_for(*span));
        Ok(hold)
    }

    /// Asks the server, and waits for its grant. A request that does not wait has the time that is left since `began`.
    async fn ask(
        &mut self,
        wait: Wait,
        request: &LockRequest,
        began: Instant,
    ) -> Result<Lease, LockError> {
        let spent = if wait.waits() { Duration::ZERO } else { began.elapsed() };
        let limit = self.shared.options.request_timeout.saturating_sub(spent);
        let waiting = self.shared.waiting_within(limit);
        waiting.acquire(&mut self.place, wait, request.listener()).await
    }

    /// Waits to be first among this client's waiters (C26). Returns the turn with what was passed, and the remaining
    /// wait.
    async fn turn(&self, wait: Wait) -> Result<(Option<TurnAndPassed>, Wait), LockError> {
        let Some(span) = wait.span() else {
            return Ok((self.turn_and_passed().await, wait));
        };
        let started = Instant::now();
        let mut waiting = pin!(self.turn_and_passed());
        let Ok(turn) = timeout(span, &mut waiting).await else {
            let name = self.place.claim.name.clone();
            let is_silent = self.shared.local_queue.is_silent(&name, started);
            let contention = (!is_silent).then(Contention::unknown);
            return Err(LockError::Timeout { name, waited: span, contention });
        };
        Ok((turn, Wait::AtMost(span).rest_since(started)))
    }

    async fn turn_and_passed(&self) -> Option<TurnAndPassed> {
        let turn = self.shared.local_queue.turn(self.name()).await?;
        let passed = if self.by_server { turn.ask_server() } else { turn.passed().await };
        // Gives back a useless hold or place, and asks the server.
        Some((turn, passed.filter(|passed| self.has_use_for(passed))))
    }

    fn has_use_for(&self, passed: &Passed) -> bool {
        let ttl = self.place.claim.ttl;
        match passed {
            Passed::Hold(hold) => {
                !self.by_server && hold.suits(ttl, self.shared.options.clock.now())
            }
            Passed::Place(place) => place.suits(&self.place),
        }
    }

    fn hands_off(&self) -> bool {
        let options = &self.shared.options;
        let passes = options.local_hand_off && !self.by_server;
        passes && self.shared.backend.token_ranges().is_some()
    }
}

fn new_place(shared: &Shared, claim: Claim) -> ServerPlace {
    let owned = shared.own(claim.name.clone(), claim.owner, claim.ttl.as_duration());
    ServerPlace::new(claim, owned)
}

/// The head of a line that asks the server. Its drop passes the place on the server to the next head. So a line has
/// one place and one request at a time, however short the waits of its heads are (C26).
struct Head<'a> {
    acquisition: &'a mut Acquisition,
    turn: Option<Turn<Passed>>,
}

impl Drop for Head<'_> {
    fn drop(&mut self) {
        let Some(turn) = self.turn.take() else { return };
        let Acquisition { shared, place, .. } = &mut *self.acquisition;
        if !place.is_new() {
            let fresh = Claim { owner: place.claim.owner.drawn_anew(), ..place.claim.clone() };
            let fresh = new_place(shared, fresh);
            turn.leave(Passed::Place(std::mem::replace(place, fresh)));
            shared.passed_on();
        }
    }
}
