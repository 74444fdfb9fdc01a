//! Abilities that only some backends have.

use async_trait::async_trait;

use super::answers::{Grant, Recording, Release, Reserved};
use crate::model::{
    BackendError, Claim, FencingToken, LockName, Occurrence, OwnerId, Record, RecordedRun,
    Reservation, Ttl,
};

/// Grants several locks that are free in one request (C39).
#[async_trait]
pub trait AcquiresSeveral: Send + Sync {
    /// Takes locks that are free for `claims`, in their order and in one request, and stops before the first
    /// that it does not grant (C39). The answer has a grant for each claim from the front on that was granted.
    ///
    /// A lock is not free if [`acquire`](crate::DistributedLock::acquire) without a waiter would not grant it: another
    /// holds it, others wait for it, or the claim is refused. That is no error here: the caller asks for that
    /// lock alone, and learns why. A claim that holds its lock already is granted it again (C16). No claim takes
    /// a place in a queue.
    ///
    /// If all of them are free, it grants all of up to [`MultiRequest::MAX_NAMES`](crate::MultiRequest::MAX_NAMES). It may grant fewer than it
    /// could, or none, where something is in the way.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question, or if one of the claims was withdrawn. If the
    /// outcome is unknown, any of the claims may be granted.
    ///
    /// # Cancel safety
    /// After a drop any of the claims may be granted: [`withdraw`](crate::DistributedLock::withdraw) undoes each.
    async fn acquire_while_free(&self, claims: &[Claim]) -> Result<Vec<Grant>, BackendError>;
}

/// Reserves tokens for holds that pass within a client (C26).
#[async_trait]
pub trait ReservesTokens: Send + Sync {
    /// Ends the hold as [`release`](crate::DistributedLock::release) does, or keeps it for others of the same client, and
    /// reserves tokens for them: up to as many as are asked for, greater than every earlier token of the
    /// lock, and less than every later one (C22).
    ///
    /// The hold is kept as it is: its owner, its token on the server and its TTL. If the request
    /// [yields](Reservation::yields), it is kept only if nobody waits on the server. A backend may always
    /// release instead, and should where reserved tokens would be ahead of the clock that makes the first
    /// token of a lock whose counter is lost.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question: then the hold may be over, or goes on.
    ///
    /// # Cancel safety
    /// After a drop the hold may or may not be over; releasing does no harm.
    async fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError>;
}

/// Keeps others out after a holder's work has ended (C41), and records runs that ended well (C42).
#[async_trait]
pub trait RecordsRuns: Send + Sync {
    /// Ends the hold of `owner` for its owner, if it is still its own, and keeps everybody out until `delay`
    /// has passed by the server's clock (C41). Then the lock is free, as after an expiry.
    ///
    /// The hold ends exactly there: later or earlier than its TTL would have ended it. Until then it belongs
    /// to [`owner.retired()`](OwnerId::retired), under the same token and label: the former owner can neither
    /// extend nor release it, and an inspection shows it. A repeat finds the hold of the retired owner, sets
    /// its end anew, and is [`Release::Released`]. Those who wait are served when the delay is over: at the
    /// latest by their poll.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question.
    ///
    /// # Cancel safety
    /// After a drop the hold is its owner's, or it is over for its owner; releasing again does no harm.
    async fn release_after(
        &self,
        name: &LockName,
        owner: OwnerId,
        delay: Ttl,
    ) -> Result<Release, BackendError>;

    /// Records a run that ended well beside its lock (C42), if the hold is still its owner's under that
    /// token. The check and the record are one atomic step: a holder that lost the lock cannot record.
    ///
    /// The record ends by itself when the server has remembered it for as long as it says. A repeat, and
    /// another run of the same occurrence, replace it.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question.
    ///
    /// # Cancel safety
    /// After a drop the run may or may not be recorded, or may be as long as the hold lasts; recording again
    /// does no harm.
    async fn record(&self, record: &Record) -> Result<Recording, BackendError>;

    /// The token of the run of `occurrence` that is recorded beside a lock (C42); `None` if none is.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    async fn recorded(
        &self,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<Option<FencingToken>, BackendError>;

    /// The runs that are recorded beside a lock, in any order. It may look at all that the store has: it is for people.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    async fn runs(&self, name: &LockName) -> Result<Vec<RecordedRun>, BackendError>;

    /// Removes the record of a run, so that its occurrence runs again. Returns false if none was recorded.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question.
    ///
    /// # Cancel safety
    /// After a drop the run may or may not be forgotten; forgetting again does no harm.
    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Result<bool, BackendError>;
}
