//! The trait that a backend implements: protocol, and no policy.

use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;

use super::admin::LockAdmin;
use super::answers::{Attempt, Extension, Release};
use super::extensions::{RecordsRuns, ReservesTokens};
use super::waiter::WaiterHandle;
use crate::model::{BackendError, Capabilities, Claim, Lease, LockName, OwnerId, Renewal};

/// Completes once a hold is seen to be over.
pub type LossWatch = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A store of locks: Redis, a directory, this process.
///
/// Applications do not call it: they hold a [`LockClient`](crate::LockClient), which makes guards that renew
/// themselves, and withdraws dropped requests. Backends implement this trait, and tests replace it. It is
/// object-safe: `Arc<dyn DistributedLock>` is chosen at run time.
///
/// Four verbs are the protocol: [`acquire`](Self::acquire), [`extend`](Self::extend),
/// [`release`](Self::release) and [`withdraw`](Self::withdraw). A store that can do more implements a further trait,
/// and returns itself from that trait's accessor: [`admin`](Self::admin), [`token_ranges`](Self::token_ranges),
/// [`run_records`](Self::run_records).
///
/// # For implementors
/// A backend says how to ask its server **once**. It has no retry loop, no timer and no task of its
/// own beyond its connections: waiting, renewing, time-outs, retries and the repair of unknown
/// outcomes are written once, in this crate. It keeps these rules:
///
/// - Every method may be called again with the same arguments after any outcome, and then does no
///   harm (C16): an owner that already holds the lock is granted it again with the **same** token.
/// - Time is the server's. No decision depends on a client's clock.
/// - Every method may be dropped at any await (C19). Its effect on the server is found again by owner.
/// - "No" is a value ([`Attempt::Busy`], [`Extension::Lost`], [`Release::NotHeld`]); an error means
///   that the question was not answered (C15).
///
/// The conformance suite of `lock-testkit` checks all of these rules.
#[async_trait]
pub trait DistributedLock: fmt::Debug + Send + Sync + 'static {
    /// Describes this backend, as data for people and docs.
    fn capabilities(&self) -> Capabilities;

    /// Tries once to take the lock for `claim`, in one round trip.
    ///
    /// Finds the owner's own grant if there is one: the same token, for a full TTL again. Without a `waiter`, a lock
    /// that is held or has waiters is [`Attempt::Busy`]. With a `waiter`, the claim also takes a place in the
    /// backend's queue if there is one, or keeps the place it has. The handle wakes it with its grant, or to try
    /// again. A lock that is held with another number of permits is busy like any other:
    /// [`Contention::permits`](crate::Contention::permits) tells the client the number (C33).
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question.
    ///
    /// # Cancel safety
    /// After a drop the claim may be granted or queued: [`withdraw`](Self::withdraw) undoes both.
    async fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError>;

    /// Extends many holds, in as few requests as the server allows; the answers are in the order of
    /// the questions.
    ///
    /// The client asks for up to a hundred holds at a time, or for one if the backend's
    /// [`Capabilities::renewals`] are single. A call without an answer within a sixth of the TTL has none for each of its
    /// holds, and the client then asks for these one by one.
    ///
    /// Each hold that its owner still has lasts at least its TTL from now. No hold is shortened, so answers may
    /// overtake each other. A hold that is over is [`Extension::Lost`] and is **never** restored (C10).
    ///
    /// # Cancel safety
    /// After a drop any of the holds may have been extended, which does no harm.
    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>>;

    /// Ends the hold if it still is `owner`'s, and wakes the next waiter.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question.
    ///
    /// # Cancel safety
    /// After a drop the hold may or may not be over; releasing again does no harm.
    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError>;

    /// Takes back all effects, past and future, of the claims of `owners` on the lock (C19): grants, places in the
    /// queue, and requests still in flight. A claim without any effect yet is withdrawn too. The backend sends as few
    /// requests as the server allows.
    ///
    /// From the answer on, for at least [`WITHDRAWAL_REMEMBERED`](super::WITHDRAWAL_REMEMBERED) (30 s) whatever the
    /// claim's TTL, [`acquire`](Self::acquire) of such a claim grants and queues nothing. If the lock is free, it
    /// fails with [`BackendError::withdrawn`], or another permanent error whose outcome is
    /// [`NotApplied`](crate::Outcome::NotApplied). If another holds the lock, it may also answer "busy". This covers
    /// requests that were sent before and arrive late, and requests that this value or a clone of it sends later. A
    /// request that arrives even later may be granted, and then lasts for its TTL at most.
    ///
    /// An owner without hold and without place is no error. Holds of other owners stay.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer. Any of the claims may be withdrawn then.
    ///
    /// # Cancel safety
    /// After a drop any of the claims may be withdrawn; withdrawing again does no harm.
    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError>;

    /// Numbers the server of a lock, for a backend with several servers that can fail one by one: all locks of one
    /// server have the same number. By default there is one server.
    ///
    /// The client calls it before it extends or gives back holds. Holds of one server share requests (C12), and wait
    /// for no other server.
    fn server_of(&self, name: &LockName) -> u64 {
        let _ = name;
        0
    }

    /// Watches a hold: the future completes once the backend itself sees that the hold is over. `None`, the default,
    /// if only the answer to a renewal shows it.
    ///
    /// The future completes only on certainty. While the backend cannot tell, the future stays pending, and the
    /// deadline decides.
    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        let _ = lease;
        None
    }

    /// Gives back at once the backend's resources on the server that no hold needs, such as sessions and idle
    /// connections. By default there are none.
    ///
    /// A [`LockClient`](crate::LockClient) calls it at the end of its shutdown (C20), when its own claims are over.
    /// Other clients of the backend may continue: the backend works as before, and makes its resources anew. A
    /// detached lease still lasts for its TTL.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer. The remaining resources expire by themselves.
    ///
    /// # Cancel safety
    /// After a drop some of the resources may be left; closing again does no harm.
    async fn close(&self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Returns the interface of operators, which lists holders and evicts them. `None`, the default, if the store
    /// shows its locks to nobody.
    fn admin(&self) -> Option<&dyn LockAdmin> {
        None
    }

    /// Reserves tokens, so that a hold passes from one task of a client to the next without a request (C26).
    fn token_ranges(&self) -> Option<&dyn ReservesTokens> {
        None
    }

    /// Keeps others out after a holder's work has ended (C41), and records runs (C42).
    fn run_records(&self) -> Option<&dyn RecordsRuns> {
        None
    }
}
