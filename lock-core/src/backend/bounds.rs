//! Spans of the contract that clients and servers must agree on.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A queued waiter looks at the server itself at least this often (C28). This bounds the cost of a lost message.
pub const FALLBACK_POLL: Duration = Duration::from_secs(1);

/// A waiter that was silent for longer is taken for dead (C28): three looks that it missed.
pub const WAITER_LIVENESS: Duration = Duration::from_secs(3);

/// A grant that was pushed to a waiter lasts this long until its holder renews it (C28). This bounds the cost of a
/// waiter that died in silence.
pub const UNCLAIMED_GRANT_TTL: Duration = WAITER_LIVENESS;

/// A withdrawn claim is remembered for this long (C19), so that a late request of it is refused.
pub const WITHDRAWAL_REMEMBERED: Duration = Duration::from_secs(30);

/// A server's clock that is further ahead of ours than this is not used for tokens.
const CLOCK_LEAD: Duration = Duration::from_secs(24 * 60 * 60);

/// The latest time at which a server's clock may stand when it makes a token.
///
/// C22: a token from a clock far ahead could not be exceeded if the clock is set right and the counter is lost then.
/// So a client sends the server the latest time that its clock may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockLimit {
    /// A day ahead of the client's own clock, at the moment of asking.
    ADay,
    /// No limit: any time of the server's clock.
    Any,
}

impl ClockLimit {
    /// The limit as of now, in microseconds since 1970; `None` if there is none.
    pub fn micros(self) -> Option<u64> {
        match self {
            Self::ADay => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Some((now + CLOCK_LEAD).as_micros() as u64)
            }
            Self::Any => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c22_a_clock_may_be_a_day_ahead() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros();
        let limit = u128::from(ClockLimit::ADay.micros().expect("a limit"));
        let day = CLOCK_LEAD.as_micros();
        assert!(limit >= now + day && limit < now + day + 60_000_000, "{limit}");
        assert_eq!(ClockLimit::Any.micros(), None);
    }

    #[test]
    fn c28_a_dead_waiter_missed_three_looks() {
        assert!(WAITER_LIVENESS >= FALLBACK_POLL * 3);
    }
}
