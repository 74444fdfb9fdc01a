//! The acts, and their differences.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One run of the whole sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Act {
    /// Workers read and write the stock without a lock.
    WithoutLock,
    /// Workers hold a lock from the read to the write.
    WithLock,
    /// One holder is stopped past its lease; the shop accepts every write.
    StoppedUnfenced,
    /// One holder is stopped past its lease; the shop checks tokens.
    StoppedFenced,
}

impl Act {
    pub(crate) const ALL: [Self; 4] =
        [Self::WithoutLock, Self::WithLock, Self::StoppedUnfenced, Self::StoppedFenced];

    /// Names the act in what is printed.
    pub(crate) fn in_short(self) -> &'static str {
        match self {
            Self::WithoutLock => "no lock",
            Self::WithLock => "lock",
            Self::StoppedUnfenced => "lock, holder stopped",
            Self::StoppedFenced => "lock and fence, holder stopped",
        }
    }

    pub(crate) fn locks(self) -> bool {
        self != Self::WithoutLock
    }

    pub(crate) fn is_fenced(self) -> bool {
        self == Self::StoppedFenced
    }

    pub(crate) fn stops_a_worker(self) -> bool {
        matches!(self, Self::StoppedUnfenced | Self::StoppedFenced)
    }

    /// Returns the number of buyers that a worker serves at a time, of the requested `tasks`. Its tills share one
    /// client, and one place in the queue for the lock. A worker that will be stopped has only one till, so that
    /// it is stopped between its read and its write.
    pub(crate) fn tills(self, tasks: u32) -> u32 {
        if self.stops_a_worker() { 1 } else { tasks }
    }

    /// Returns the TTL of a lease. The acts that stop a worker wait until a lease expires.
    pub(crate) fn ttl(self) -> Duration {
        Duration::from_secs(if self.stops_a_worker() { 1 } else { 10 })
    }
}
