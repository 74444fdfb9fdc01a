//! Abilities that only some backends have.

use async_trait::async_trait;

use super::answers::{Recording, Reserved};
use crate::model::{
    BackendError, FencingToken, LockName, Occurrence, Record, RecordedRun, Reservation,
};

/// Reserves tokens for holds that pass within a client (C26).
#[async_trait]
pub trait ReservesTokens: Send + Sync {
    /// Ends the hold as [`release`](crate::DistributedLock::release) does, or keeps it for other tasks of the same
    /// client and reserves tokens for them. It reserves up to the number that was asked for; they are greater than
    /// every earlier token of the lock, and less than every later one (C22).
    ///
    /// A kept hold does not change: its owner, its token on the server and its TTL stay. If the request
    /// [yields](Reservation::yields), the hold is kept only if nobody waits on the server. A backend may always
    /// release instead. It should do so if the reserved tokens would be ahead of the clock from which a lock without
    /// a counter gets its first token.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question: the hold may then be over or not.
    ///
    /// # Cancel safety
    /// After a drop the hold may or may not be over; releasing does no harm.
    async fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError>;
}

/// Records runs that ended well (C42). The holds of such a backend last for their TTL without their client: so a run can keep
/// others out after its end (C41).
#[async_trait]
pub trait RecordsRuns: Send + Sync {
    /// Records beside the lock a run that ended well (C42), if its owner still has the hold with that token. The
    /// check and the record are one atomic step, so a holder that lost the lock cannot record.
    ///
    /// The server forgets the record after the time that the record names. A repeated call, or another run of the
    /// same occurrence, replaces it.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question.
    ///
    /// # Cancel safety
    /// After a drop the run may or may not be recorded, and may still be recorded while the hold lasts. Recording
    /// again does no harm.
    async fn record(&self, record: &Record) -> Result<Recording, BackendError>;

    /// Returns the recorded runs of a lock, in any order: all of them, or that of one occurrence. To return all is for
    /// people, and may scan the whole store.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    async fn runs(
        &self,
        name: &LockName,
        of: Option<&Occurrence>,
    ) -> Result<Vec<RecordedRun>, BackendError>;

    /// Returns the token of the recorded run of `occurrence` (C42): [`runs`](Self::runs) of it. `None` if none is recorded.
    ///
    /// # Errors
    /// As [`runs`](Self::runs).
    ///
    /// # Cancel safety
    /// As [`runs`](Self::runs).
    async fn recorded(
        &self,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<Option<FencingToken>, BackendError> {
        Ok(self.runs(name, Some(occurrence)).await?.first().map(|run| run.token))
    }

    /// Removes the record of a run, so that its occurrence runs again. Returns false if none was recorded.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question.
    ///
    /// # Cancel safety
    /// After a drop the run may or may not be forgotten; forgetting again does no harm.
    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Result<bool, BackendError>;
}

/// Stores that keep fences of resources beside their locks.
pub trait KeepsFences {
    /// The fence of a resource.
    type Fence;

    /// Returns the fence of a resource. Its mark is kept under exactly this name.
    fn fence_of(&self, resource: &str) -> Self::Fence;
}
