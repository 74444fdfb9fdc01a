//! Telemetry of a client: events and spans by `tracing`, and counts by `metrics`.
//!
//! Normal events have the level `debug`, trouble that is being handled has `info`. Renewals that begin to fail, a loss, a
//! lock that could not be given back, and a wait that only an operator can end have `warn`. No event shows an owner. A
//! recorder or a layer that panics loses its own event, and never a hold.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{Span, debug, debug_span, info, warn};

use super::containment::tell;
#[cfg(feature = "metrics")]
use super::meter::{Meter, Waiter};
use super::options::ClientOptions;
use super::outage::{Ended, Outage};
use crate::backend::Release;
use crate::model::{
    BackendError, Claim, FencingToken, Label, Lease, LockError, LockName, LostReason,
};

/// The events of one client.
#[derive(Debug)]
pub(crate) struct Telemetry {
    backend: &'static str,
    pub(super) outage: Outage,
    #[cfg(feature = "metrics")]
    meter: Meter,
}

impl Telemetry {
    #[cfg_attr(not(feature = "metrics"), allow(unused_variables))]
    pub(crate) fn new(backend: &'static str, options: &ClientOptions) -> Self {
        Self {
            backend,
            outage: Outage::default(),
            #[cfg(feature = "metrics")]
            meter: Meter::new(backend, options.metric_group.clone()),
        }
    }

    /// Reports an acquisition that began at `started`.
    pub(crate) fn acquiring(
        self: &Arc<Self>,
        name: &LockName,
        started: Instant,
    ) -> AcquisitionReport {
        #[cfg(feature = "metrics")]
        let waiter = {
            let mut waiter = None;
            tell(self.backend, || waiter = Some(self.meter.waiter(name)));
            waiter
        };
        AcquisitionReport {
            telemetry: self.clone(),
            name: name.clone(),
            span: debug_span!("acquire", backend = self.backend, %name),
            started,
            ended: false,
            #[cfg(feature = "metrics")]
            _waiter: waiter,
        }
    }

    /// Reports the end of a hold, for any reason.
    pub(crate) fn hold_ended(
        &self,
        name: &LockName,
        token: FencingToken,
        reason: LostReason,
        error: Option<&BackendError>,
        held: Duration,
    ) {
        let (backend, token) = (self.backend, token.get());
        tell(backend, || match is_loss(reason) {
            true => {
                let error = error.map(tracing::field::display);
                warn!(backend, %name, token, ?held, %reason, error, "lost");
            }
            false => debug!(backend, %name, token, ?held, %reason, "ended"),
        });
        #[cfg(feature = "metrics")]
        tell(backend, || {
            self.meter.hold_ended(name, is_loss(reason).then(|| label_of(reason)), held);
        });
    }

    /// Reports a confirmed renewal that was `late` after its due time.
    pub(crate) fn renewed(&self, name: &LockName, token: FencingToken, late: Duration) {
        let (backend, token) = (self.backend, token.get());
        tell(backend, || debug!(backend, %name, token, ?late, "renewed"));
        #[cfg(feature = "metrics")]
        tell(backend, || self.meter.renewed(name, late));
    }

    /// Reports a renewal without an answer; it is tried again until the deadline.
    pub(crate) fn renewal_failed(
        &self,
        name: &LockName,
        token: FencingToken,
        error: &BackendError,
    ) {
        let (backend, token) = (self.backend, token.get());
        tell(backend, || debug!(backend, %name, token, %error, "renewal failed, to be repeated"));
    }

    /// Reports an outage at its beginning: `failed` of the `holds` of this client have no answer, among them one of the
    /// lock `name`.
    pub(crate) fn renewals_fail(
        &self,
        failed: usize,
        holds: usize,
        name: &LockName,
        error: &BackendError,
    ) {
        let backend = self.backend;
        if self.outage.begins() {
            tell(
                backend,
                || warn!(backend, failed, holds, %name, %error, "renewals fail, to be repeated"),
            );
        }
    }

    /// Reports the end of an outage.
    pub(super) fn outage_ended(&self, Ended { failed, lost, lasted }: Ended) {
        let backend = self.backend;
        tell(backend, || info!(backend, failed, lost, ?lasted, "no renewal fails any more"));
    }

    /// Reports renewals whose task has ended; they are repeated by the next one.
    pub(crate) fn renewals_given_up(&self, count: usize) {
        let backend = self.backend;
        tell(backend, || {
            info!(backend, count, "renewals were given up with their task, to be repeated")
        });
    }

    /// Reports a release that the server did not carry out completely; the janitor repeats it. A refusal of the
    /// server, such as a missing right, does not pass by itself.
    pub(crate) fn release_failed(&self, lease: &Lease, error: &LockError) {
        let (backend, name, token) = (self.backend, &lease.name, lease.token.get());
        tell(backend, || match error.is_transient() {
            true => info!(backend, %name, token, %error, "release failed, to be repeated"),
            false => {
                warn!(backend, %name, token, %error, "release refused, waiters may not be woken");
            }
        });
    }

    /// Reports that the server ended a hold, or had none.
    #[cfg_attr(not(feature = "metrics"), allow(unused_variables))]
    pub(crate) fn given_back(&self, name: &LockName, release: Release) {
        #[cfg(feature = "metrics")]
        self.release_ended(
            name,
            match release {
                Release::Released => "released",
                Release::NotHeld => "not_held",
            },
        );
    }

    /// Reports a lock that could not be given back and is not tried again: it stays until its TTL ends it.
    pub(crate) fn not_given_back(&self, name: &LockName, error: &dyn Display) {
        let backend = self.backend;
        tell(
            backend,
            || warn!(backend, %name, %error, "not released; the server keeps the lock until its TTL"),
        );
        #[cfg(feature = "metrics")]
        self.release_ended(name, "failed");
    }

    #[cfg(feature = "metrics")]
    fn acquisition_ended(&self, name: &LockName, outcome: &'static str, waited: Duration) {
        tell(self.backend, || self.meter.acquisition_ended(name, outcome, waited));
    }

    #[cfg(feature = "metrics")]
    fn release_ended(&self, name: &LockName, outcome: &'static str) {
        tell(self.backend, || self.meter.release_ended(name, outcome));
    }
}

/// Warns of a wait for a foreign key without a TTL (C49): it may stay for ever.
pub(crate) fn waits_for_foreign_key(backend: &'static str, name: &LockName, waited: Duration) {
    tell(backend, || {
        warn!(
            backend, %name, ?waited,
            "waits for a key without a TTL that is not ours: delete it if nobody needs it, or choose \
             another name or a prefix"
        );
    });
}

/// Warns of a wait for a claim that counts another number of permits (C33): the users of the lock disagree.
pub(crate) fn waits_for_other_number(
    backend: &'static str,
    claim: &Claim,
    (other, of): (u16, Option<&Label>),
    waited: Duration,
) {
    let (name, asked, label) = (&claim.name, claim.kind.permits(), &claim.label);
    let of = of.map(tracing::field::display);
    tell(backend, || {
        warn!(
            backend, %name, asked, %label, other, of, ?waited,
            "waits for a holder or a waiter that counts another number of permits: use the same number \
             everywhere; in a deploy that changes the number this passes by itself"
        );
    });
}

/// Warns of a wait for a lock that its own client holds under the same label (C43): the waiting task may be the holder.
pub(crate) fn waits_for_own_hold(backend: &'static str, claim: &Claim, waited: Duration) {
    let (name, label) = (&claim.name, &claim.label);
    tell(backend, || {
        warn!(
            backend, %name, %label, ?waited,
            "waits for a lock that this client holds under the same label: a task that acquires a \
             lock again that it holds waits for itself, unless both requests are reentrant"
        );
    });
}

/// Report of one acquisition. A drop before the end means that its caller gave up.
pub(crate) struct AcquisitionReport {
    telemetry: Arc<Telemetry>,
    name: LockName,
    span: Span,
    started: Instant,
    ended: bool,
    #[cfg(feature = "metrics")]
    _waiter: Option<Waiter>,
}

impl AcquisitionReport {
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Returns its duration so far.
    pub(crate) fn waited(&self) -> Duration {
        self.started.elapsed()
    }

    /// Reports the end of the acquisition.
    pub(crate) fn ended(mut self, outcome: Result<FencingToken, &LockError>) {
        self.ended = true;
        let (name, waited) = (&self.name, self.waited());
        let Telemetry { backend, .. } = *self.telemetry;
        tell(backend, || {
            self.span.in_scope(|| match outcome {
                Ok(token) => debug!(%name, token = token.get(), ?waited, "acquired"),
                Err(error) => debug!(%name, %error, ?waited, "not acquired"),
            });
        });
        #[cfg(feature = "metrics")]
        self.telemetry.acquisition_ended(name, outcome_of(outcome), waited);
    }
}

impl Drop for AcquisitionReport {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let (backend, name, waited) = (self.telemetry.backend, &self.name, self.waited());
        tell(backend, || debug!(backend, %name, ?waited, "acquisition dropped"));
        #[cfg(feature = "metrics")]
        self.telemetry.acquisition_ended(name, "cancelled", waited);
    }
}

/// Returns true if a hold was taken from its holder.
pub(crate) fn is_loss(reason: LostReason) -> bool {
    match reason {
        LostReason::Expired | LostReason::MaxHold | LostReason::Evicted => true,
        LostReason::Released | LostReason::Shutdown | LostReason::Forked => false,
    }
}

#[cfg(feature = "metrics")]
fn label_of(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Expired => "expired",
        LostReason::MaxHold => "max_hold",
        LostReason::Evicted => "evicted",
        LostReason::Released => "released",
        LostReason::Shutdown => "shutdown",
        LostReason::Forked => "forked",
    }
}

#[cfg(feature = "metrics")]
fn outcome_of(outcome: Result<FencingToken, &LockError>) -> &'static str {
    match outcome {
        Ok(_) => "acquired",
        Err(LockError::NotAcquired { .. }) => "busy",
        Err(LockError::Timeout { contention: None, .. }) => "no_answer",
        Err(LockError::Timeout { .. }) => "timeout",
        Err(LockError::Closed { .. }) => "closed",
        Err(_) => "error",
    }
}
