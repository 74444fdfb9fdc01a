//! The TTL of a lease.

use std::fmt;
use std::time::Duration;

use super::invalid_input::{InputKind, InvalidInput};

/// TTL of a lease: the server keeps it unrenewed for this long (C4), 10 ms to 24 h, in whole milliseconds.
///
/// With a long TTL the others wait longer when a holder dies. With a short TTL a short pause loses the hold. The
/// default is 30 s.
///
/// ```
/// use std::time::Duration;
/// use lock_core::Ttl;
///
/// // Parts of a millisecond round up.
/// assert_eq!(Ttl::new(Duration::from_micros(10_001))?.as_millis(), 11);
/// assert!(Ttl::new(Duration::from_millis(9)).is_err());
/// # Ok::<(), lock_core::InvalidInput>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(Duration);

impl Ttl {
    /// The shortest TTL.
    pub const MIN: Self = Self(Duration::from_millis(10));
    /// The longest TTL.
    pub const MAX: Self = Self(Duration::from_secs(24 * 60 * 60));

    /// Checks `ttl` and rounds it up to whole milliseconds.
    ///
    /// # Errors
    /// [`InvalidInput`] if it is shorter than 10 ms or longer than 24 h.
    pub fn new(ttl: Duration) -> Result<Self, InvalidInput> {
        // C4: refuses any other TTL before anything is sent.
        if ttl < Self::MIN.0 || ttl > Self::MAX.0 {
            let text = format!("invalid TTL {ttl:?}: choose 10 ms to 24 h");
            return Err(InvalidInput::new(InputKind::Ttl, text));
        }
        Ok(Self(Duration::from_millis(ttl.as_nanos().div_ceil(1_000_000) as u64)))
    }

    /// Returns the time that counts as kept by a server, of the time that its answer says: a year at most. A backend without
    /// expiry may say [`Duration::MAX`], and no moment is as far away.
    pub(crate) fn kept(said: Duration) -> Duration {
        said.min(Self::MAX.0 * 365)
    }

    /// The TTL as a span.
    pub fn as_duration(self) -> Duration {
        self.0
    }

    /// The TTL in milliseconds, as it goes on the wire.
    pub fn as_millis(self) -> u64 {
        self.0.as_millis() as u64
    }
}

impl Default for Ttl {
    fn default() -> Self {
        Self(Duration::from_secs(30))
    }
}

impl fmt::Debug for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c04_a_ttl_is_10_ms_to_24_h_and_rounds_up() {
        let millis = |nanos| Ttl::new(Duration::from_nanos(nanos)).map(Ttl::as_millis).ok();
        assert_eq!(millis(10_000_000), Some(10));
        assert_eq!(millis(10_000_001), Some(11));
        assert_eq!(Ttl::new(Ttl::MAX.0).map(Ttl::as_millis).ok(), Some(86_400_000));
        for bad in [0, 1, 999_000, 9_999_999] {
            assert_eq!(millis(bad), None, "{bad}");
        }
        for bad in [Ttl::MAX.0 + Duration::from_nanos(1), Duration::MAX] {
            assert!(Ttl::new(bad).is_err());
        }
    }
}
