//! One acquisition, from before its first byte to its hold.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use super::hold::Hold;
use super::janitor::InFlight;
use super::progress::Progress;
use super::server_place::{Busy, ServerPlace};
use super::shared::{Acquired, Shared};
use super::succession::Succession;
use super::tries::TryTurn;
use crate::model::{Capabilities, Claim, Kind, Lease, LockError, LockName, LockRequest, Wait};

/// A hold, and its succession: the way in which it passes to the next task.
pub(crate) type Granted = (Arc<Hold>, Option<Succession>);

/// An acquisition in flight. It is made before the first byte is sent. Dropped at any point, it withdraws whatever
/// the server may have granted by then (C19).
pub(crate) struct Acquisition {
    pub(super) shared: Arc<Shared>,
    pub(super) place: ServerPlace,
    /// True if no hold passes to it or from it within this client: a hold that allows others beside it is always a
    /// grant of the server.
    pub(super) by_server: bool,
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
        self.acquire_in_line(wait, request).await
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
        let one = shared.tries.begin(&place.claim.name);
        let mut progress = Progress::new(wait, limit);
        // C17: a try that nobody polls does not keep the others from asking in time.
        let asking = match timeout_at(began + limit / 2, one.turn()).await {
            Ok(TryTurn::Ask(asking)) => Some(asking),
            Ok(TryTurn::Busy(seen)) => {
                request.listener().tell(&seen);
                let (asked, answered) = (shared.options.clock.now(), Instant::now());
                progress.busy(&Busy { seen, asked, answered });
                return Err(progress.into_error(&place.claim, shared.name(), None));
            }
            Err(_) => None,
        };
        // C17: the wait for the turn is included.
        let waiting = shared.waiting_within(limit.saturating_sub(began.elapsed()));
        let asked = waiting.acquire(place, wait, request.listener(), &mut None).await;
        match (asking, asked.as_ref().map_err(LockError::contention)) {
            (Some(asking), Ok(_)) => asking.granted(),
            (Some(asking), Err(Some(seen))) => asking.busy(seen.clone()),
            (Some(_), Err(None)) | (None, _) => {}
        }
        asked
    }

    /// Starts to hold the granted or passed lease, under the label of its claim.
    pub(super) fn held(&self, lease: Lease) -> Result<Arc<Hold>, LockError> {
        let hold = self.shared.hold(lease)?;
        hold.count_under(self.shared.held_labels.count(&self.place.claim));
        Ok(hold)
    }

    pub(super) fn hold(&self, lease: Lease, request: &LockRequest) -> Result<Arc<Hold>, LockError> {
        let hold = self.held(lease)?;
        request.max_hold_span().inspect(|span| hold.renew_for(*span));
        Ok(hold)
    }

    /// Asks the server, and waits for its grant. A request that does not wait has the time that is left since `began`.
    pub(super) async fn ask(
        &mut self,
        wait: Wait,
        request: &LockRequest,
        began: Instant,
    ) -> Result<Lease, LockError> {
        let spent = if wait.waits() { Duration::ZERO } else { began.elapsed() };
        let limit = self.shared.options.request_timeout.saturating_sub(spent);
        let waiting = self.shared.waiting_within(limit);
        waiting.acquire(&mut self.place, wait, request.listener(), &mut None).await
    }
}

pub(super) fn new_place(shared: &Shared, claim: Claim) -> ServerPlace {
    let owned = shared.own(claim.name.clone(), claim.owner, claim.ttl.as_duration());
    ServerPlace::new(claim, owned)
}
