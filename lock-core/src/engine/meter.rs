//! Counts and times of a client, by the `metrics` facade.
//!
//! Each has the labels `backend` and `group`: what [`ClientOptions::metric_group`] makes of the name,
//! since names themselves may be without number.
//!
//! [`ClientOptions::metric_group`]: crate::ClientOptions::metric_group

use std::time::Duration;

use metrics::Unit::{Count, Seconds};
use metrics::{
    Gauge, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::model::LockName;

const ACQUISITIONS: &str = "leasehold_acquisitions_total";
const WAIT: &str = "leasehold_wait_seconds";
const WAITERS: &str = "leasehold_waiters";
const HOLD: &str = "leasehold_hold_seconds";
const LATENESS: &str = "leasehold_renewal_lateness_seconds";
const LOSSES: &str = "leasehold_losses_total";

#[derive(Debug)]
pub(crate) struct Meter {
    backend: &'static str,
    group: fn(&LockName) -> &'static str,
}

/// Counts as a waiter for as long as it lives.
pub(crate) struct Waiter(Gauge);

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}

impl Meter {
    pub(crate) fn new(backend: &'static str, group: fn(&LockName) -> &'static str) -> Self {
        describe_counter!(ACQUISITIONS, Count, "Acquisitions that ended, by outcome");
        describe_histogram!(WAIT, Seconds, "How long acquisitions took, by outcome");
        describe_gauge!(WAITERS, Count, "Acquisitions under way");
        describe_histogram!(HOLD, Seconds, "How long locks were held");
        describe_histogram!(LATENESS, Seconds, "How long after it was due a renewal was confirmed");
        describe_counter!(LOSSES, Count, "Holds that were lost, by reason");
        Self { backend, group }
    }

    pub(crate) fn waiter(&self, name: &LockName) -> Waiter {
        let waiters = gauge!(WAITERS, "backend" => self.backend, "group" => (self.group)(name));
        waiters.increment(1);
        Waiter(waiters)
    }

    pub(crate) fn acquisition_ended(
        &self,
        name: &LockName,
        outcome: &'static str,
        waited: Duration,
    ) {
        let group = (self.group)(name);
        let labels = [("backend", self.backend), ("group", group), ("outcome", outcome)];
        counter!(ACQUISITIONS, &labels).increment(1);
        histogram!(WAIT, &labels).record(waited);
    }

    pub(crate) fn hold_ended(&self, name: &LockName, loss: Option<&'static str>, held: Duration) {
        let (backend, group) = (self.backend, (self.group)(name));
        histogram!(HOLD, "backend" => backend, "group" => group).record(held);
        if let Some(reason) = loss {
            counter!(LOSSES, "backend" => backend, "group" => group, "reason" => reason)
                .increment(1);
        }
    }

    pub(crate) fn renewed(&self, name: &LockName, late: Duration) {
        let group = (self.group)(name);
        histogram!(LATENESS, "backend" => self.backend, "group" => group).record(late);
    }
}
