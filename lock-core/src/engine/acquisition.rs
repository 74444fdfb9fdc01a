//! One acquisition, from before its first byte to its hold.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::Instrument;

use super::hold::Hold;
use super::janitor::InFlight;
use super::local_queue::Turn;
use super::owned_claim::OwnedClaim;
use super::shared::Shared;
use super::telemetry::AcquisitionReport;
use super::wait::{Limits, Waiting};
use crate::model::{Claim, LockError, LockRequest, Wait};

/// An acquisition under way. Made before the first byte is sent; dropped at any point, it takes
/// back whatever the server may have granted by then (C19).
pub(crate) struct Acquisition {
    shared: Arc<Shared>,
    claim: Claim,
    owned: OwnedClaim,
    report: AcquisitionReport,
    /// A shutdown waits for it.
    _in_flight: InFlight,
}

impl Acquisition {
    pub(crate) fn new(shared: Arc<Shared>, claim: Claim) -> Result<Self, LockError> {
        shared.admit(&claim.name)?;
        let _in_flight = shared.janitor.begin();
        let report = shared.telemetry.acquiring(&claim.name);
        let owned = shared.own(claim.name.clone(), claim.owner, claim.ttl.as_duration());
        Ok(Self { shared, claim, owned, report, _in_flight })
    }

    /// Acquires, and tells of it: the hold, and the claim that is to be given back with it.
    pub(crate) async fn run(
        mut self,
        request: &LockRequest,
    ) -> Result<(Arc<Hold>, OwnedClaim), LockError> {
        let span = self.report.span();
        let outcome = self.acquire_unless_closed(request).instrument(span).await;
        // The wait in line is part of it.
        let waited = self.report.waited();
        let outcome = outcome.map_err(|error| match error {
            LockError::Timeout { name, contention, .. } => {
                LockError::Timeout { name, waited, contention }
            }
            other => other,
        });
        self.report.ended(outcome.as_ref().map(|hold| hold.lease().token));
        outcome.map(|hold| (hold, self.owned))
    }

    /// Acquires, unless the client is shut down first.
    async fn acquire_unless_closed(
        &mut self,
        request: &LockRequest,
    ) -> Result<Arc<Hold>, LockError> {
        let mut closed = self.shared.closed.subscribe();
        let name = self.claim.name.clone();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(LockError::Closed { name }),
            acquired = self.acquire_in_turn(request) => acquired,
        }
    }

    async fn acquire_in_turn(&mut self, request: &LockRequest) -> Result<Arc<Hold>, LockError> {
        let (_turn, wait) = self.turn(request.wait_policy()).await?;
        let options = &self.shared.options;
        let limits = Limits { request_timeout: options.request_timeout, drift: options.drift };
        let waiting = Waiting::new(&*self.shared.backend, &*options.clock, limits);
        let lease =
            waiting.acquire(&self.claim, wait, request.listener(), self.owned.state()).await?;
        self.shared.hold(lease, request.max_hold_span())
    }

    /// Waits to be first among this client's waiters (C26); says how much of the wait is left.
    async fn turn(&self, wait: Wait) -> Result<(Option<Turn>, Wait), LockError> {
        let turn = self.shared.local_queue.turn(&self.claim.name);
        match wait {
            Wait::Never | Wait::AtMost(Duration::ZERO) => Ok((None, wait)),
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
