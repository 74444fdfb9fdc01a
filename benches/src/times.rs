//! Durations and their quantiles.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::client::Result;

/// Many measured times, in ns.
#[derive(Clone)]
pub(crate) struct Times(Histogram<u64>);

impl Times {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(Histogram::new(3)?))
    }

    pub(crate) fn note(&mut self, span: Duration) -> Result<()> {
        Ok(self.0.record(nanos(span).max(1))?)
    }

    pub(crate) fn add(&mut self, others: &Self) -> Result<()> {
        Ok(self.0.add(&others.0)?)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a quantile, in µs.
    pub(crate) fn quantile(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// Returns the ns since `begun`.
pub(crate) fn nanos_since(begun: Instant) -> u64 {
    nanos(begun.elapsed())
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
