//! Counts and times of a client, by the `metrics` facade.
//!
//! Each metric but that of stale tokens has the labels `backend` and `group`. [`ClientOptions::metric_group`] makes
//! the group from the name, since the number of names has no bound.
//!
//! [`ClientOptions::metric_group`]: crate::ClientOptions::metric_group

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use metrics::Unit::{Count, Seconds};
use metrics::{
    Gauge, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use super::containment::tell;
use crate::fence::STALE_TOKENS;
use crate::model::LockName;

const ACQUISITIONS: &str = "leasehold_acquisitions_total";
const WAIT: &str = "leasehold_wait_seconds";
const WAITERS: &str = "leasehold_waiters";
const HOLD: &str = "leasehold_hold_seconds";
const LATENESS: &str = "leasehold_renewal_lateness_seconds";
const LOSSES: &str = "leasehold_losses_total";
const RELEASES: &str = "leasehold_releases_total";

const OUTCOMES: [&str; 7] =
    ["acquired", "busy", "timeout", "no_answer", "cancelled", "closed", "error"];
const REASONS: [&str; 3] = ["expired", "max_hold", "evicted"];
const ENDS: [&str; 3] = ["released", "not_held", "failed"];

#[derive(Debug)]
pub(crate) struct Meter {
    backend: &'static str,
    group: MetricGroup,
    /// The groups whose counters are registered.
    registered: RwLock<HashSet<Cow<'static, str>>>,
}

/// The function that makes the metrics' group from a lock's name.
#[derive(Clone)]
pub(crate) struct MetricGroup(Arc<Group>);

type Group = dyn Fn(&LockName) -> Cow<'static, str> + Send + Sync;

impl MetricGroup {
    pub(crate) fn new<G: Into<Cow<'static, str>>>(
        group: impl Fn(&LockName) -> G + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |name| group(name).into()))
    }

    fn of(&self, name: &LockName) -> Cow<'static, str> {
        (self.0)(name)
    }
}

impl Default for MetricGroup {
    fn default() -> Self {
        Self::new(|_| "all")
    }
}

impl fmt::Debug for MetricGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricGroup")
    }
}

/// Counts as a waiter for as long as it lives.
pub(crate) struct Waiter {
    backend: &'static str,
    waiters: Gauge,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        tell(self.backend, || self.waiters.decrement(1));
    }
}

impl Meter {
    pub(crate) fn new(backend: &'static str, group: MetricGroup) -> Self {
        describe_counter!(ACQUISITIONS, Count, "Acquisitions that ended, by outcome");
        describe_histogram!(WAIT, Seconds, "Duration of acquisitions, by outcome");
        describe_gauge!(WAITERS, Count, "Acquisitions under way");
        describe_histogram!(HOLD, Seconds, "Duration of holds");
        describe_histogram!(
            LATENESS,
            Seconds,
            "Delay of the confirmation of a renewal after its due time"
        );
        describe_counter!(LOSSES, Count, "Holds that were lost, by reason");
        describe_counter!(RELEASES, Count, "Releases, by outcome");
        describe_counter!(STALE_TOKENS, Count, "Tokens that a fence refused as stale");
        Self { backend, group, registered: RwLock::default() }
    }

    /// Returns the group of a lock, and registers its counters.
    fn group_of(&self, name: &LockName) -> Cow<'static, str> {
        let group = self.group.of(name);
        if !self.registered.read().unwrap_or_else(PoisonError::into_inner).contains(&group) {
            self.register(group.clone());
        }
        group
    }

    /// Registers the counters of a group with 0: Prometheus does not see the first count of a new series as an
    /// increase.
    fn register(&self, group: Cow<'static, str>) {
        self.registered.write().unwrap_or_else(PoisonError::into_inner).insert(group.clone());
        let register = |counter: &'static str, label: &'static str, values: &[&'static str]| {
            for value in values {
                counter!(counter, "backend" => self.backend, "group" => group.clone(), label => *value)
                    .increment(0);
            }
        };
        register(ACQUISITIONS, "outcome", &OUTCOMES);
        register(LOSSES, "reason", &REASONS);
        register(RELEASES, "outcome", &ENDS);
        counter!(STALE_TOKENS).increment(0);
    }

    pub(crate) fn waiter(&self, name: &LockName) -> Waiter {
        let group = self.group_of(name);
        let waiters = gauge!(WAITERS, "backend" => self.backend, "group" => group);
        waiters.increment(1);
        Waiter { backend: self.backend, waiters }
    }

    pub(crate) fn acquisition_ended(
        &self,
        name: &LockName,
        outcome: &'static str,
        waited: Duration,
    ) {
        let group = self.group_of(name);
        let backend = self.backend;
        counter!(ACQUISITIONS, "backend" => backend, "group" => group.clone(), "outcome" => outcome)
            .increment(1);
        histogram!(WAIT, "backend" => backend, "group" => group, "outcome" => outcome)
            .record(waited);
    }

    pub(crate) fn hold_ended(&self, name: &LockName, loss: Option<&'static str>, held: Duration) {
        let (backend, group) = (self.backend, self.group_of(name));
        histogram!(HOLD, "backend" => backend, "group" => group.clone()).record(held);
        if let Some(reason) = loss {
            counter!(LOSSES, "backend" => backend, "group" => group, "reason" => reason)
                .increment(1);
        }
    }

    pub(crate) fn release_ended(&self, name: &LockName, outcome: &'static str) {
        let (backend, group) = (self.backend, self.group_of(name));
        counter!(RELEASES, "backend" => backend, "group" => group, "outcome" => outcome)
            .increment(1);
    }

    pub(crate) fn renewed(&self, name: &LockName, late: Duration) {
        let group = self.group_of(name);
        histogram!(LATENESS, "backend" => self.backend, "group" => group).record(late);
    }
}
