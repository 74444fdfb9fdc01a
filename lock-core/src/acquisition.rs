//! One acquisition, from before its first byte to its guard.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::Instrument;

use crate::client::Shared;
use crate::janitor::Begun;
use crate::local_queue::Turn;
use crate::wait::{Limits, Waiting};
use crate::{Claim, LockError, LockGuard, LockRequest, Wait};

/// An acquisition under way. Made before the first byte is sent; dropped at any point, it takes
/// back whatever the server may have granted by then.
pub(crate) struct Acquisition {
    shared: Arc<Shared>,
    claim: Claim,
    /// Whether the server may know of the claim.
    traces: bool,
    started: Instant,
    ended: bool,
    /// A shutdown waits for it.
    _begun: Begun,
}

impl Acquisition {
    pub(crate) fn new(shared: Arc<Shared>, claim: Claim) -> Result<Self, LockError> {
        shared.admit(&claim.name)?;
        let _begun = shared.janitor.begin();
        Ok(Self { shared, claim, traces: false, started: Instant::now(), ended: false, _begun })
    }

    /// Acquires, and tells of it.
    pub(crate) async fn run(mut self, request: &LockRequest) -> Result<LockGuard, LockError> {
        let telemetry = self.shared.telemetry.clone();
        #[cfg(feature = "metrics")]
        let _waiter = telemetry.waiter(&self.claim.name);
        let span = telemetry.acquiring(&self.claim.name);
        let outcome = self.acquire_unless_closed(request).instrument(span.clone()).await;
        let waited = self.started.elapsed();
        self.ended = true;
        span.in_scope(|| telemetry.acquisition_ended(&self.claim.name, &outcome, waited));
        // The wait in line is part of it.
        outcome.map_err(|error| match error {
            LockError::Timeout { name, contention, .. } => {
                LockError::Timeout { name, waited, contention }
            }
            other => other,
        })
    }

    /// Acquires, unless the client is shut down first.
    async fn acquire_unless_closed(
        &mut self,
        request: &LockRequest,
    ) -> Result<LockGuard, LockError> {
        let mut closed = self.shared.closed.subscribe();
        let name = self.claim.name.clone();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(LockError::Closed { name }),
            acquired = self.acquire_in_turn(request) => acquired,
        }
    }

    async fn acquire_in_turn(&mut self, request: &LockRequest) -> Result<LockGuard, LockError> {
        let (turn, wait) = self.turn(request.patience()).await?;
        let shared = self.shared.clone();
        let options = &shared.options;
        let limits = Limits { request_timeout: options.request_timeout, drift: options.drift };
        let waiting = Waiting::new(&*shared.backend, &*options.clock, limits);
        let acquired =
            waiting.acquire(&self.claim, wait, request.listener(), &mut self.traces).await;
        let lease = acquired.map_err(|error| match turn {
            Some(Turn { stood_in_line: true, .. }) => self.too_late_to_ask(error, wait),
            _ => error,
        })?;
        let doubt = std::mem::take(&mut self.traces).then(|| self.claim.clone());
        shared.clone().guard(lease, request.hold_bound(), doubt)
    }

    /// A wait that was spent in line may leave no time for an answer, which says nothing of the server.
    fn too_late_to_ask(&self, error: LockError, left: Wait) -> LockError {
        let short =
            matches!(left, Wait::AtMost(left) if left < self.shared.options.request_timeout / 2);
        match error {
            LockError::Backend { name: Some(name), source, .. }
                if short && source.is_transient() =>
            {
                LockError::Timeout { name, waited: self.started.elapsed(), contention: None }
            }
            other => other,
        }
    }

    /// Waits to be first among this client's waiters; says how much of the wait is left.
    async fn turn(&self, wait: Wait) -> Result<(Option<Turn>, Wait), LockError> {
        let turn = self.shared.local_queue.turn(&self.claim.name);
        match wait {
            Wait::No | Wait::AtMost(Duration::ZERO) => Ok((None, wait)),
            Wait::Forever => Ok((Some(turn.await), wait)),
            Wait::AtMost(span) => {
                let started = Instant::now();
                let Ok(turn) = timeout(span, turn).await else {
                    let name = self.claim.name.clone();
                    return Err(LockError::Timeout { name, waited: span, contention: None });
                };
                // Never zero, which would not wait at all.
                let left = span.saturating_sub(started.elapsed()).max(Duration::from_nanos(1));
                Ok((Some(turn), Wait::AtMost(left)))
            }
        }
    }
}

impl Drop for Acquisition {
    fn drop(&mut self) {
        if self.traces {
            self.shared.janitor.withdraw(&self.claim);
        }
        if !self.ended {
            self.shared.telemetry.acquisition_dropped(&self.claim.name, self.started.elapsed());
        }
    }
}
