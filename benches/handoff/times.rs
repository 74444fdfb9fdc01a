//! How long things take.

use std::time::Instant;

use hdrhistogram::Histogram;

/// Times in µs.
pub(crate) type Times = Histogram<u64>;

/// The µs since `begun`.
pub(crate) fn micros(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX)
}
