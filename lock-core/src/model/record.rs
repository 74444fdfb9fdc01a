//! Record of a run that ended well.

use std::time::Duration;

use super::{FencingToken, InputKind, InvalidInput, Lease, LockName, Occurrence, OwnerId, Ttl};

/// A run that is recorded beside a lock (C42).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RecordedRun {
    /// The occurrence of the run.
    pub occurrence: Occurrence,
    /// The token of the run.
    pub token: FencingToken,
}

impl RecordedRun {
    /// The run of `occurrence` under `token`.
    pub fn new(occurrence: Occurrence, token: FencingToken) -> Self {
        Self { occurrence, token }
    }
}

/// Longest time for which a record is kept: ten years.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// A run that ended well, to be recorded beside the lock that it held (C42).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Record {
    /// The lock.
    pub name: LockName,
    /// The holder. Nobody else may record.
    pub owner: OwnerId,
    /// The token of the hold, which is recorded too. An owner that lost the lock may hold it again under another
    /// token, and cannot record for the lost hold.
    pub token: FencingToken,
    /// The occurrence of the run.
    pub occurrence: Occurrence,
    /// The server keeps the record for this long: 10 ms to ten years.
    pub remember: Duration,
}

impl Record {
    /// Makes the record of a run of `occurrence` under the hold that `lease` proves.
    ///
    /// # Errors
    /// [`InvalidInput`] if `remember` is less than 10 ms or more than ten years.
    pub fn new(
        lease: &Lease,
        occurrence: Occurrence,
        remember: Duration,
    ) -> Result<Self, InvalidInput> {
        Self::check_remember(remember)?;
        let (name, owner, token) = (lease.name.clone(), lease.owner, lease.granted_as);
        Ok(Self { name, owner, token, occurrence, remember })
    }

    /// Fails if `remember` is less than 10 ms or more than ten years.
    pub(crate) fn check_remember(remember: Duration) -> Result<(), InvalidInput> {
        if (Ttl::MIN.as_duration()..=LONGEST).contains(&remember) {
            return Ok(());
        }
        let text = format!("a record cannot be kept for {remember:?}: choose 10 ms to ten years");
        Err(InvalidInput::new(InputKind::Remember, text))
    }

    /// Returns the time for which the server keeps the record, in whole milliseconds, rounded up.
    pub fn remember_millis(&self) -> u64 {
        u64::try_from(self.remember.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}
