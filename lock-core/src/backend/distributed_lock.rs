//! The trait that a backend implements: protocol, and no policy.

use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;

use super::admin::LockAdmin;
use super::answers::{Attempt, Extension, Grant, Recording, Release, Reserved};
use super::waiter::WaiterHandle;
use crate::model::{
    BackendError, Capabilities, Claim, FencingToken, Lease, LockName, LostReason, Occurrence,
    OwnerId, Record, Renewal, Reservation, Ttl,
};

/// Completes when a hold is seen to be over, and says how.
pub type LossWatch = Pin<Box<dyn Future<Output = LostReason> + Send>>;

/// A store of locks: Redis, a directory, this process.
///
/// Applications do not call it; they hold a [`LockClient`](crate::LockClient), which makes guards
/// that renew themselves and gives back what is dropped. This trait is what a backend implements,
/// and what a test swaps. It is object-safe: `Arc<dyn DistributedLock>` is chosen at run time.
///
/// # For implementors
/// A backend says how to ask its server **once**. It has no retry loop, no timer and no task of its
/// own beyond its connections: waiting, renewing, time-outs, retries and the repair of unknown
/// outcomes are written once, in this crate. It keeps these rules:
///
/// - Every method may be called again with the same arguments after any outcome, and then does no
///   harm (C16): an owner that already holds the lock is granted it again with the **same** token.
/// - Time is the server's. No decision depends on a client's clock.
/// - Every method may be dropped at any await (C19). What the server then does is found again by owner.
/// - "No" is a value ([`Attempt::Busy`], [`Extension::Lost`], [`Release::NotHeld`]); an error means
///   that the question was not answered (C15).
///
/// What operators ask is in [`LockAdmin`]. The conformance suite of `lock-testkit` holds a
/// backend to all of it.
#[async_trait]
pub trait DistributedLock: LockAdmin {
    /// What this backend can do.
    fn capabilities(&self) -> Capabilities;

    /// Which of its servers has the lock, if the backend has several that can fail one by one: a number that is
    /// the same for all locks of one server. By default there is one.
    ///
    /// It is asked of the holds that are to be extended. Those of one server share requests (C12), and wait for
    /// no other server.
    fn server_of(&self, name: &LockName) -> u64 {
        let _ = name;
        0
    }

    /// Tries once to take the lock for `claim`, in one round trip.
    ///
    /// Finds the owner's own grant if there is one: the same token, for a full TTL again. Without a
    /// `waiter` a lock that is held, or that others wait for, is [`Attempt::Busy`]. With one, the
    /// claim also takes a place in the queue where the backend has a queue, keeps the place it
    /// already has, and is woken through the handle: by its grant, or to try again.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question.
    ///
    /// # Cancel safety
    /// After a drop the claim may be granted or queued: [`withdraw`](Self::withdraw) undoes both.
    async fn try_acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError>;

    /// Takes locks that are free for `claims`, in their order and in one request, and stops before the first
    /// that it does not grant (C39). The answer has a grant for each claim from the front on that was granted.
    ///
    /// A lock is not free if [`try_acquire`](Self::try_acquire) without a waiter would not grant it: another
    /// holds it, others wait for it, or the claim is refused. That is no error here: the caller asks for that
    /// lock alone, and learns why. A claim that holds its lock already is granted it again (C16). No claim takes
    /// a place in a queue.
    ///
    /// A backend may grant fewer than it could, or none, which is the default: where locks are on different
    /// servers, or where something else is in the way. If all of them are free, one that
    /// [says so](Capabilities::taking_several) grants all of up to [`MAX_NAMES`](crate::MAX_NAMES) in one
    /// request. One that does not is never asked.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question, or if one of the claims was withdrawn. If the
    /// outcome is unknown, any of the claims may be granted.
    ///
    /// # Cancel safety
    /// After a drop any of the claims may be granted: [`withdraw`](Self::withdraw) undoes each.
    async fn acquire_while_free(&self, claims: &[Claim]) -> Result<Vec<Grant>, BackendError> {
        let _ = claims;
        Ok(Vec::new())
    }

    /// Extends many holds, in as few requests as the server allows; the answers are in the order of
    /// the questions.
    ///
    /// Each hold that is still its owner's lasts at least its TTL from now; it is never shortened,
    /// so that answers may overtake each other. One that is not is [`Extension::Lost`] and is
    /// **never** made anew (C10).
    ///
    /// # Cancel safety
    /// After a drop any of the holds may have been extended, which does no harm.
    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>>;

    /// Extends one hold: [`extend_all`](Self::extend_all) for a single renewal.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question.
    ///
    /// # Cancel safety
    /// As [`extend_all`](Self::extend_all).
    async fn extend(&self, renewal: &Renewal) -> Result<Extension, BackendError> {
        let answer = self.extend_all(std::slice::from_ref(renewal)).await.pop();
        let no_answer = || BackendError::no_answer(self.capabilities().backend, Duration::ZERO);
        answer.unwrap_or_else(|| Err(no_answer()))
    }

    /// Ends the hold of `owner`, if it is still its own, and wakes the next waiter.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question.
    ///
    /// # Cancel safety
    /// After a drop the hold may or may not be over; releasing again does no harm.
    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError>;

    /// Ends the hold as [`release`](Self::release) does, or keeps it for others of the same client, and
    /// reserves tokens for them: up to as many as are asked for, greater than every earlier token of the
    /// lock, and less than every later one (C22).
    ///
    /// The hold is kept as it is: its owner, its token on the server and its TTL. If the request
    /// [yields](Reservation::yields), it is kept only if nobody waits on the server. A backend may always
    /// release instead, and should where reserved tokens would be ahead of the clock that makes the first
    /// token of a lock whose counter is lost. By default it does; one that reserves
    /// [says so](Capabilities::reserving_tokens).
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question: then the hold may be over, or goes on.
    ///
    /// # Cancel safety
    /// After a drop the hold may or may not be over; releasing does no harm.
    async fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError> {
        self.release(&hold.name, hold.owner).await.map(Reserved::Ended)
    }

    /// Ends the hold of `owner` for its owner, if it is still its own, and keeps everybody out until `delay`
    /// has passed by the server's clock (C41). Then the lock is free, as after an expiry.
    ///
    /// The hold ends exactly there: later or earlier than its TTL would have ended it. Until then it belongs
    /// to [`owner.retired()`](OwnerId::retired), under the same token and label: the former owner can neither
    /// extend nor release it, and an inspection shows it. A repeat finds the hold of the retired owner, sets
    /// its end anew, and is [`Release::Released`]. Those who wait are served when the delay is over: at the
    /// latest by their poll.
    ///
    /// A backend that can do this and [`record`](Self::record) [says so](Capabilities::runs_once). One that
    /// does not is never asked, and by default refuses.
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
    ) -> Result<Release, BackendError> {
        let _ = (name, owner, delay);
        let backend = self.capabilities().backend;
        Err(BackendError::refusal(backend, "no hold outlasts its work here"))
    }

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
    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        let _ = record;
        Err(BackendError::refusal(self.capabilities().backend, "no run is recorded here"))
    }

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
    ) -> Result<Option<FencingToken>, BackendError> {
        let _ = (name, occurrence);
        Err(BackendError::refusal(self.capabilities().backend, "no run is recorded here"))
    }

    /// Takes back everything that the claim of `owner` did or may still do (C19): its grant, its place in
    /// the queue, and a request of it that is still on its way. Of a claim that did nothing yet, it takes
    /// back what may come.
    ///
    /// From when this is answered, and for at least
    /// [`WITHDRAWAL_REMEMBERED`](super::WITHDRAWAL_REMEMBERED) (30 s), whatever the claim's TTL:
    /// [`try_acquire`](Self::try_acquire) of this claim grants and queues nothing. Where the lock is free
    /// it is [`BackendError::withdrawn`], or another error that is permanent and whose outcome is
    /// [`NotApplied`](crate::Outcome::NotApplied). Where another holds the lock, "busy" is as good an
    /// answer. This goes for requests that were sent before and arrive late, and for those that this value
    /// or a clone of it is asked to send later. A request that arrives later still may be granted, and then
    /// lasts for its TTL at most.
    ///
    /// An owner that holds nothing and waits for nothing is no error, and the hold of another stays.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer.
    ///
    /// # Cancel safety
    /// After a drop the claim may or may not be withdrawn; withdrawing again does no harm.
    async fn withdraw(&self, name: &LockName, owner: OwnerId) -> Result<(), BackendError>;

    /// Watches a hold: the future completes once the backend itself sees that it is over. `None`
    /// where only the answer to a renewal tells, which is the default.
    ///
    /// It completes on certainty alone: while the backend cannot tell, it stays pending, and the
    /// deadline decides.
    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        let _ = lease;
        None
    }

    /// Gives back at once what this backend keeps on its server for later, and no hold needs: sessions,
    /// idle connections. By default there is no such thing.
    ///
    /// A [`LockClient`](crate::LockClient) calls it at the end of its shutdown (C20), when its own claims are
    /// over. Other clients of the backend may go on: it works as before, and gets back what it needs. A lease
    /// that was detached lasts for its TTL all the same.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer. What is left ends by itself.
    ///
    /// # Cancel safety
    /// After a drop some of it may be left; closing again does no harm.
    async fn close(&self) -> Result<(), BackendError> {
        Ok(())
    }
}
