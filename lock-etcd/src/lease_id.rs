//! The ids of leases, which tell their TTLs.

use std::time::Duration;

use rand::TryRng;
use rand::rngs::SysRng;

/// 24 h are fewer seconds than this.
const TTL_BITS: u32 = 17;

/// A lease, by an id that we choose: positive, random in its upper bits, and in its lower bits the
/// TTL that was asked for, in seconds. A keep-alive does not tell the TTL of a lease. So its id
/// does, also to a process that finds it on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LeaseId(i64);

impl LeaseId {
    /// A new id for a lease of as many seconds.
    pub(crate) fn random(seconds: i64) -> Self {
        // From the system: after a fork a generator of our own would draw the same on both sides.
        let drawn = SysRng.try_next_u64().unwrap_or_else(|_| rand::random());
        let random = (drawn >> (TTL_BITS + 1)).max(1).cast_signed();
        Self((random << TTL_BITS) | (seconds & ((1 << TTL_BITS) - 1)))
    }

    /// The id that is on a key; `None` if the key has no lease.
    pub(crate) fn on_key(id: i64) -> Option<Self> {
        (id != 0).then_some(Self(id))
    }

    pub(crate) fn get(self) -> i64 {
        self.0
    }

    /// The TTL that was asked for, in seconds. The server keeps it at least as long.
    pub(crate) fn seconds(self) -> i64 {
        self.0 & ((1 << TTL_BITS) - 1)
    }

    pub(crate) fn ttl(self) -> Duration {
        Duration::from_secs(self.seconds().unsigned_abs())
    }
}

/// A TTL in whole seconds, rounded up.
pub(crate) fn seconds(ttl: Duration) -> i64 {
    let whole = ttl.as_secs() as i64;
    if ttl.subsec_nanos() == 0 { whole } else { whole + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c04_ttls_are_whole_seconds_rounded_up_and_told_by_the_id() {
        let rounded = |millis| seconds(Duration::from_millis(millis));
        assert_eq!([10, 1000, 1001, 86_400_000].map(rounded), [1, 1, 2, 86_400]);
        for ttl in [1, 2, 30, 86_400] {
            let id = LeaseId::random(ttl);
            assert!(id.get() > 0);
            assert_eq!(id.seconds(), ttl);
            assert_ne!(id, LeaseId::random(ttl));
        }
        assert_eq!(LeaseId::on_key(0), None);
    }
}
