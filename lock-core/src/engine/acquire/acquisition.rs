//! One acquisition, from before its first byte to its hold.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::Instrument;

use super::progress::Progress;
use super::server_place::{Busy, ServerPlace};
use super::shared::{Acquired, Shared};
use super::succession::Succession;
use super::tries::TryTurn;
use super::wait::AttemptOutcome;
use crate::engine::give_back::InFlight;
use crate::engine::hold::Held;
use crate::model::{
    BackendError, BoxError, Capabilities, Claim, Contention, Kind, Lease, LockError, LockName,
    LockRequest, Outcome, Wait,
};

/// A hold, and its succession: the way in which it passes to the next task.
pub(crate) type Granted = (Held, Option<Succession>);

/// Outcome of an acquisition that asked once: a hold, or the acquisition, with the contention if the lock is busy.
pub(crate) type AskedOnce = Result<Acquired, Box<(Acquisition, Option<Contention>)>>;

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
        shared.store.options.validity(claim.ttl)?;
        let Capabilities { kinds, backend, .. } = shared.store.backend.capabilities();
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
        let place = ServerPlace::new(claim, &shared.janitor);
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
        let report = self.shared.store.telemetry.acquiring(self.name(), Instant::now());
        let outcome = self.acquire_unless_closed(request).instrument(report.span()).await;
        // The wait in line is included.
        let outcome = outcome.map_err(|error| error.after(report.waited()));
        report.ended(outcome.as_ref().map(|(hold, _)| hold.token()));
        outcome
    }

    /// Asks the server once, within `wait` and without a place in its queue. A claim without an answer keeps its owner,
    /// so that its next request finds its own grant (C16).
    pub(crate) async fn ask_once(mut self, wait: Wait) -> Result<AskedOnce, LockError> {
        let sent = Instant::now();
        let asked = self.shared.ask_once(&mut self.place);
        let outcome = match wait.span() {
            Some(span) => timeout(span, asked).await.unwrap_or(Ok(AttemptOutcome::Troubled)),
            None => asked.await,
        };
        let lease = match outcome? {
            AttemptOutcome::Granted(lease) => lease,
            AttemptOutcome::Busy { seen, .. } => return Ok(Err(Box::new((self, Some(seen))))),
            AttemptOutcome::Troubled => return Ok(Err(Box::new((self, None)))),
        };
        let report = self.shared.store.telemetry.acquiring(self.name(), sent);
        let hold = self.held(lease)?;
        report.ended(Ok(hold.token()));
        Ok(Ok(self.acquired((hold, None))))
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
        let limit = shared.store.options.request_timeout;
        let one = shared.tries.begin(&place.claim.name, limit.saturating_sub(began.elapsed()));
        let mut progress = Progress::new(wait, limit);
        let asking = match one.turn().await {
            TryTurn::Ask(asking) => asking,
            TryTurn::Busy(seen) => {
                request.listener().tell(&seen);
                let (asked, answered) = (shared.store.now(), Instant::now());
                progress.busy(&Busy { seen, asked, answered });
                return Err(progress.into_error(&place.claim, shared.store.name(), None));
            }
            TryTurn::Unanswered(failed) => {
                return Err(unanswered(&place.claim.name, shared.store.name(), began, failed));
            }
        };
        // C17: the wait for the turn is included.
        let left = limit.saturating_sub(began.elapsed());
        let asked = shared.acquire(place, left, wait, request.listener(), &mut None).await;
        asking.answered(asked.as_ref().map(|lease| Contention {
            ttl_left: Some(lease.granted),
            holder: Some(place.claim.label.clone()),
            ..Contention::unknown()
        }));
        asked
    }

    /// Starts to hold the granted or passed lease, under the label of its claim.
    pub(super) fn held(&self, lease: Lease) -> Result<Held, LockError> {
        self.shared.hold(lease, self.shared.held_labels.count(&self.place.claim))
    }

    pub(super) fn hold(&self, lease: Lease, request: &LockRequest) -> Result<Held, LockError> {
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
        let limit = self.shared.store.options.request_timeout.saturating_sub(spent);
        self.shared.acquire(&mut self.place, limit, wait, request.listener(), &mut None).await
    }
}

/// Returns the error of a try that sent nothing, since the request of another try had no answer.
fn unanswered(
    name: &LockName,
    backend: &'static str,
    began: Instant,
    failed: Option<BackendError>,
) -> LockError {
    let context = "the request of another task for the same lock failed";
    let silent = || format!("no answer within {:?}", began.elapsed()).into();
    let failed = failed.map_or_else(silent, BoxError::from);
    let error = BackendError::transient(backend, Outcome::NotApplied, context, failed);
    LockError::backend("acquire", Some(name), error)
}
