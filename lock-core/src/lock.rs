//! The trait that a backend implements: protocol, and no policy.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{
    BackendError, Capabilities, FencingToken, Finding, Label, Lease, LockError, LockName,
    LockRequest, LostReason, OwnerId, SystemClock, Ttl, Waker, wait,
};

/// Completes when a hold is seen to be over, and says how.
pub type LossWatch = Pin<Box<dyn Future<Output = LostReason> + Send>>;

/// A place where locks are held: Redis, a directory, this process.
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
/// - Every method but [`evict`](Self::evict) may be called again with the same arguments after any
///   outcome, and then does no harm: an owner that already holds the lock is granted it again with
///   the **same** token.
/// - Time is the server's. No decision depends on a client's clock.
/// - Every method may be dropped at any await. What the server then does is found again by owner.
/// - "No" is a value ([`Attempt::Busy`], [`Extension::Lost`], [`Release::NotHeld`]); an error means
///   that the question was not answered.
///
/// The conformance suite (feature `conformance`) holds a backend to them.
#[async_trait]
pub trait DistributedLock: fmt::Debug + Send + Sync + 'static {
    /// What this backend can do.
    fn capabilities(&self) -> Capabilities;

    /// Tries once to take the lock for `claim`, in one round trip.
    ///
    /// Finds the owner's own grant if there is one: the same token, for a full TTL again. Without a
    /// `waker` a lock that is held, or that others wait for, is [`Attempt::Busy`]. With one, the
    /// claim also takes a place in the queue where the backend has a queue, keeps the place it
    /// already has, and is woken through the waker: by its grant, or to try again.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question.
    ///
    /// # Cancel safety
    /// After a drop the claim may be granted or queued: [`withdraw`](Self::withdraw) undoes both.
    async fn try_acquire(
        &self,
        claim: &Claim,
        waker: Option<&Waker>,
    ) -> Result<Attempt, BackendError>;

    /// Extends many holds, in as few requests as the server allows; the answers are in the order of
    /// the questions.
    ///
    /// Each hold that is still its owner's lasts at least its TTL from now; it is never shortened,
    /// so that answers may overtake each other. One that is not is [`Extension::Lost`] and is
    /// **never** made anew.
    ///
    /// # Cancel safety
    /// After a drop any of the holds may have been extended, which does no harm.
    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>>;

    /// Ends the hold of `owner`, if it is still its own, and wakes the next waiter.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question.
    ///
    /// # Cancel safety
    /// After a drop the hold may or may not be over; releasing again does no harm.
    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError>;

    /// Takes back everything an acquisition did or may still do: its grant, its place in the queue,
    /// and, for a while, a request of it that is still on its way.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer.
    ///
    /// # Cancel safety
    /// After a drop the claim may or may not be withdrawn; withdrawing again does no harm.
    async fn withdraw(&self, claim: &Claim) -> Result<(), BackendError>;

    /// Looks at a lock without touching it.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer.
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError>;

    /// Lists the locks that are held and whose names start with `prefix`, sorted by name, at most
    /// `limit` of them.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer.
    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError>;

    /// Ends the hold of whoever has it, hands the lock to the next waiter, and says whose it was;
    /// `None` if nobody held it. A holder that is not one of ours is ended too.
    ///
    /// The holder is not asked. It learns of it at its next renewal or by its watch; until then a
    /// [`Fence`](crate::Fence) keeps it out, because the next token is greater. A repeat may end
    /// the hold of the next one.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer.
    ///
    /// # Cancel safety
    /// After a drop the hold may or may not be over.
    async fn evict(&self, name: &LockName) -> Result<Option<Holder>, BackendError>;

    /// Looks at the live server for what endangers locks: settings, rights, its role, its clock.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer. What it refuses to show is a [`Finding`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    async fn doctor(&self) -> Result<Vec<Finding>, BackendError>;

    /// Watches a hold: the future completes once the backend itself sees that it is over. `None`
    /// where only the answer to a renewal tells, which is the default.
    ///
    /// It completes on certainty alone: while the backend cannot tell, it stays pending, and the
    /// deadline decides.
    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        let _ = lease;
        None
    }

    /// Acquires a lock as a plain lease: without waiting, within a bound, or for ever, as the
    /// request says.
    ///
    /// The lease is not renewed and not given back when it is dropped; hold it through a
    /// [`LockClient`](crate::LockClient) for both. One that was waited for may be shorter than was
    /// asked ([`Lease::ttl`]): extend it to have the rest.
    ///
    /// # Errors
    /// - [`LockError::InvalidName`], [`LockError::InvalidTtl`], [`LockError::InvalidLabel`]: nothing
    ///   was sent.
    /// - [`LockError::NotAcquired`] if it is held and the request does not wait.
    /// - [`LockError::Timeout`] if it did not become free within the wait.
    /// - [`LockError::Backend`] if the server cannot be reached or refuses.
    ///
    /// # Cancel safety
    /// A dropped call may leave a hold behind, for one TTL at the longest. A
    /// [`LockClient`](crate::LockClient) gives it back at once.
    async fn acquire(&self, request: &LockRequest) -> Result<Lease, LockError> {
        let claim = request.claim()?;
        let waiting = wait::Waiting::new(self, &SystemClock, wait::Limits::default());
        let mut traces = false;
        let (wait, listener) = (request.patience(), request.listener());
        let acquired = waiting.acquire(&claim, wait, listener, &mut traces).await;
        if acquired.is_err() && traces {
            let _ = tokio::time::timeout(wait::WITHDRAW_LIMIT, self.withdraw(&claim)).await;
        }
        acquired
    }

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
}

/// One acquisition, as a backend sees it: who asks for which lock, and for how long.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// The lock.
    pub name: LockName,
    /// Who asks: drawn anew for each acquisition.
    pub owner: OwnerId,
    /// How long the server keeps an unrenewed lease.
    pub ttl: Ttl,
    /// What the holder says of itself.
    pub label: Label,
}

/// One hold that is to last longer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Renewal {
    /// The lock.
    pub name: LockName,
    /// Who holds it.
    pub owner: OwnerId,
    /// The token of the hold. An owner whose request came late may hold the lock once more, under
    /// another token: that is another hold.
    pub token: FencingToken,
    /// How long the server keeps it from now on.
    pub ttl: Ttl,
}

impl Renewal {
    /// Asks to extend the hold that `lease` proves, for `ttl` from now.
    pub fn new(lease: &Lease, ttl: Ttl) -> Self {
        Self { name: lease.name.clone(), owner: lease.owner, token: lease.token, ttl }
    }
}

/// What an attempt to acquire came to.
#[derive(Clone, Debug)]
pub enum Attempt {
    /// The claim holds the lock.
    Granted(Grant),
    /// Another holds it, or is before us in the queue.
    Busy(Contention),
}

/// A hold, as the server granted it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Grant {
    /// Greater than every earlier token of this lock.
    pub token: FencingToken,
    /// How long the server keeps it from the moment of the grant.
    pub ttl: Duration,
    /// When it was granted, on the server's clock, where the server told.
    pub at: Option<ServerTime>,
}

impl Grant {
    /// A grant of `token` for `ttl`.
    pub fn new(token: FencingToken, ttl: Duration) -> Self {
        Self { token, ttl, at: None }
    }

    /// The grant, made at `at` on the server's clock.
    #[must_use]
    pub fn at(self, at: ServerTime) -> Self {
        Self { at: Some(at), ..self }
    }
}

/// A point on the server's clock, counted from a start of the server's choice.
///
/// Two of them tell how long after the first reply a pushed grant was made, and so from when on the
/// holder's clock the lease counts at the earliest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerTime(pub Duration);

/// What is known of the others when a lock is busy.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Contention {
    /// How long the holder's lease lasts if it is not renewed.
    pub ttl_left: Option<Duration>,
    /// What the holder says of itself.
    pub holder: Option<Label>,
    /// How many are before us in the queue, not counting the holder.
    pub position: Option<u64>,
    /// When this was so, on the server's clock.
    pub at: Option<ServerTime>,
}

impl Contention {
    /// Nothing is known but that the lock is busy.
    pub fn unknown() -> Self {
        Self::default()
    }
}

impl fmt::Display for Contention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is held")?;
        if let Some(holder) = self.holder.as_ref().filter(|label| !label.as_str().is_empty()) {
            write!(f, " by {holder}")?;
        }
        if let Some(left) = self.ttl_left {
            write!(f, " for up to {left:.1?} more")?;
        }
        match self.position {
            Some(0) => f.write_str(", and we are next"),
            Some(ahead) => write!(f, ", and {ahead} wait before us"),
            None => Ok(()),
        }
    }
}

/// What an extension came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// The server keeps the lease for at least this long from now.
    Extended(Duration),
    /// The lock is not ours any more. This is final.
    Lost,
}

/// What a release came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The hold was ours, and is over.
    Released,
    /// There was no hold of ours to end: it had expired, or was ended by somebody else.
    NotHeld,
}

/// A lock as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LockState {
    /// The lock.
    pub name: LockName,
    /// Its holder, if it is held.
    pub holder: Option<Holder>,
    /// How many clients wait for it, where the backend knows.
    pub waiters: Option<u64>,
}

impl LockState {
    /// The state of the lock called `name`.
    pub fn new(name: LockName, holder: Option<Holder>, waiters: Option<u64>) -> Self {
        Self { name, holder, waiters }
    }
}

/// A holder as seen from outside. Nothing in it lets the one who looks act as the holder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Holder {
    /// The first 8 hex digits of its owner id; `None` if it is not one of ours.
    pub owner: Option<String>,
    /// Its fencing token; `None` if it is not one of ours.
    pub token: Option<FencingToken>,
    /// How long its lease lasts if it is not renewed; `None` if for ever.
    pub ttl_left: Option<Duration>,
    /// What it says of itself.
    pub label: Label,
}

impl Holder {
    /// A holder that is one of ours.
    pub fn ours(owner: OwnerId, token: FencingToken, ttl_left: Duration, label: Label) -> Self {
        let (owner, token) = (Some(owner.to_string()), Some(token));
        Self { owner, token, ttl_left: Some(ttl_left), label }
    }

    /// A holder of which no more is known than how long its lease lasts.
    pub fn foreign(ttl_left: Option<Duration>) -> Self {
        Self { owner: None, token: None, ttl_left, label: Label::default() }
    }
}

/// A shared backend is a backend. Every method is forwarded, so that none falls back to a default.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<L: DistributedLock + ?Sized> DistributedLock for Arc<L> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        waker: Option<&Waker>,
    ) -> Result<Attempt, BackendError> {
        (**self).try_acquire(claim, waker).await
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        (**self).extend_all(renewals).await
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        (**self).release(name, owner).await
    }

    async fn withdraw(&self, claim: &Claim) -> Result<(), BackendError> {
        (**self).withdraw(claim).await
    }

    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        (**self).inspect(name).await
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        (**self).list(prefix, limit).await
    }

    async fn evict(&self, name: &LockName) -> Result<Option<Holder>, BackendError> {
        (**self).evict(name).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>, BackendError> {
        (**self).doctor().await
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        (**self).watch(lease)
    }

    async fn acquire(&self, request: &LockRequest) -> Result<Lease, LockError> {
        (**self).acquire(request).await
    }

    async fn extend(&self, renewal: &Renewal) -> Result<Extension, BackendError> {
        (**self).extend(renewal).await
    }
}
