//! Margin that a holder takes off a TTL.

use std::time::Duration;

use super::{Moment, Ttl};

/// Margin that the holder takes off a TTL (C5), because its clock and the server's may run at different rates.
///
/// The default, 1 % and 2 ms, is Redlock's: the percentage covers the rates, the constant covers a server that counts
/// in milliseconds. A host whose clock is slewed by more than 1 % needs a larger rate (chrony's `maxslewrate` allows
/// 8 %).
///
/// A larger constant is a **margin**: with 5 s a holder stops believing 5 s before the server grants the lock to
/// another, and can stop its work in that time. A TTL without any time left is refused.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Drift {
    /// The part of the TTL that is subtracted, 0.0 to 0.5.
    pub rate: f64,
    /// The time that is subtracted besides.
    pub constant: Duration,
}

impl Drift {
    /// Subtracts `rate` of a TTL, and `constant` besides. A rate outside 0.0 to 0.5 is brought into that range.
    pub fn new(rate: f64, constant: Duration) -> Self {
        Self { rate: if rate.is_nan() { 0.5 } else { rate.clamp(0.0, 0.5) }, constant }
    }

    /// Returns the time for which a holder may believe in a hold of `ttl`, counted from before its request.
    pub fn validity(&self, ttl: Duration) -> Duration {
        let Self { rate, constant } = Self::new(self.rate, self.constant);
        // C5: the TTL less the drift.
        ttl.saturating_sub(ttl.mul_f64(rate)).saturating_sub(constant)
    }

    /// Returns the time after which `span` has passed on the server's clock too, however slow that clock is.
    pub(crate) fn certain(&self, span: Duration) -> Duration {
        let Self { rate, constant } = Self::new(self.rate, self.constant);
        (span + constant).div_f64(1.0 - rate)
    }

    /// Returns the time until which a holder may believe in a grant, which answers a request for `ttl` at `asked`.
    pub(crate) fn deadline(&self, asked: Moment, ttl: Ttl, granted: Duration) -> Moment {
        // C4, C5: from before the request was sent, and for no longer than was asked.
        asked.after(self.validity(granted.min(ttl.as_duration())))
    }
}

impl Default for Drift {
    fn default() -> Self {
        Self::new(0.01, Duration::from_millis(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Clock, SystemClock};

    #[test]
    fn c05_a_grant_is_believed_for_no_longer_than_was_asked_or_granted() {
        let (drift, asked, ttl) = (Drift::default(), SystemClock.now(), Ttl::default());
        for (granted, believed) in [(10, 10), (30, 30), (60, 30)] {
            let deadline = drift.deadline(asked, ttl, Duration::from_secs(granted));
            let validity = drift.validity(Duration::from_secs(believed));
            assert_eq!(deadline, asked.after(validity), "granted {granted} s of {ttl:?}");
        }
    }

    #[test]
    fn c41_a_span_is_over_by_the_slower_clock() {
        let (drift, span) = (Drift::default(), Duration::from_secs(60));
        let certain = drift.certain(span);
        assert!(drift.validity(certain + Duration::from_micros(1)) >= span, "{certain:?}");
        assert!(certain < span + span / 50, "{certain:?}");
    }

    #[test]
    fn c05_the_drift_is_1_percent_and_2_ms() {
        let validity = Drift::default().validity(Duration::from_secs(10));
        assert_eq!(validity, Duration::from_millis(9_898));
        assert_eq!(Drift::default().validity(Duration::from_millis(1)), Duration::ZERO);
    }
}
