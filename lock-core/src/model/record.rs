//! What is recorded of a run that ended well.

use std::time::Duration;

use super::{FencingToken, Lease, LockName, Occurrence, OwnerId, Ttl};

/// A record is kept for no longer: ten years.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// A run that ended well, to be recorded beside the lock that it held (C42).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Record {
    /// The lock.
    pub name: LockName,
    /// Who holds it, and alone may record.
    pub owner: OwnerId,
    /// The token of the hold, which is recorded too. An owner that lost the lock may hold it once more under
    /// another token, and cannot record for the hold that it lost.
    pub token: FencingToken,
    /// Which run it was.
    pub occurrence: Occurrence,
    /// How long the server keeps the record: 10 ms to ten years.
    pub remember: Duration,
}

impl Record {
    /// Records that the hold that `lease` proves was a run of `occurrence`. A span outside 10 ms to ten years
    /// is brought into that range.
    pub fn new(lease: &Lease, occurrence: Occurrence, remember: Duration) -> Self {
        Self {
            name: lease.name.clone(),
            owner: lease.owner,
            token: lease.granted_as,
            occurrence,
            remember: remember.clamp(Ttl::MIN.as_duration(), LONGEST),
        }
    }

    /// How long the server keeps the record, in milliseconds, as it goes on the wire. Parts round up.
    pub fn remember_millis(&self) -> u64 {
        u64::try_from(self.remember.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}
