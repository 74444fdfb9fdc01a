//! Several locks that are held together.

use std::future::pending;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::engine::while_held;
use crate::guard::LockGuard;
use crate::model::{FencingToken, LockError, LockName, LostReason};

/// Several locks that are held together (C39).
///
/// The guard is held while all locks are held, and lost with the first one that is lost. Each lock has its own token, for
/// the resource that it protects. Dropping it releases all locks, as with a [`LockGuard`].
///
/// [`LockClient::acquire_all`](crate::LockClient::acquire_all) makes it.
#[derive(Debug)]
#[must_use = "a guard that is not kept is released at once"]
pub struct MultiGuard {
    /// In the order of their names, and never empty.
    guards: Vec<LockGuard>,
}

impl MultiGuard {
    pub(super) fn new(guards: Vec<LockGuard>) -> Self {
        Self { guards }
    }

    /// The guards of the locks, in the order of the names' bytes.
    pub fn guards(&self) -> &[LockGuard] {
        &self.guards
    }

    /// Returns the locks and their fencing tokens, in the order of the names' bytes.
    pub fn tokens(&self) -> impl Iterator<Item = (&LockName, FencingToken)> {
        self.guards.iter().map(|guard| (guard.name(), guard.token()))
    }

    /// Returns the fencing token of one lock; `None` if the lock is not one of these.
    pub fn token(&self, name: impl AsRef<str>) -> Option<FencingToken> {
        self.guards
            .iter()
            .find(|guard| guard.name().as_str() == name.as_ref())
            .map(LockGuard::token)
    }

    /// Returns true while all locks are held, by the clock: see [`LockGuard::is_held`].
    pub fn is_held(&self) -> bool {
        self.guards.iter().all(LockGuard::is_held)
    }

    /// Returns the time until the first deadline; zero once a lock is lost.
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(LockGuard::remaining).min().unwrap_or_default()
    }

    /// Waits until a lock is lost, and returns its name and the reason. The other locks are held until this guard is
    /// dropped.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn lost(&self) -> (LockName, LostReason) {
        first_loss(&self.guards).await
    }

    /// Runs `work` under the locks, and drops it if one of them is lost.
    ///
    /// All are renewed until `work` has really ended.
    ///
    /// # Errors
    /// [`LockError::Lost`] with the name of the lock that was lost before `work` ended. This includes work that
    /// blocked its thread past the loss. The effects of `work` until then stay: let the resources check the tokens.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work`, and leaves the locks held.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockError> {
        let lost = async {
            let loss = self.lost().await;
            loss_of(&self.guards, loss)
        };
        let check = || self.guards.iter().try_for_each(LockGuard::error_if_lost);
        let value = while_held(work, lost, check).await?;
        // C47: the work may have blocked its thread past a deadline.
        check().map(|()| value)
    }

    /// Ends all holds at the same time, and reports if they lasted until now (C47): see [`LockGuard::release`].
    ///
    /// # Errors
    /// [`LockError::Lost`] with the name of a lock that was lost. The other locks have been released then.
    ///
    /// # Cancel safety
    /// If the future is dropped, the janitor releases the locks.
    pub async fn release(self) -> Result<(), LockError> {
        let releases = self.guards.into_iter().map(LockGuard::release);
        join_all(releases).await.into_iter().collect()
    }

    /// The guards of the locks, each on its own from now on, in the order of the names' bytes.
    pub fn into_guards(self) -> Vec<LockGuard> {
        self.guards
    }
}

/// One lock, held as several are.
impl From<LockGuard> for MultiGuard {
    fn from(guard: LockGuard) -> Self {
        Self::new(vec![guard])
    }
}

/// Returns the error for the loss of one of `guards`, with its cause.
pub(super) fn loss_of(guards: &[LockGuard], (name, reason): (LockName, LostReason)) -> LockError {
    let lost = guards.iter().find(|guard| *guard.name() == name);
    let error = lost.and_then(|guard| guard.error_if_lost().err());
    error.unwrap_or(LockError::Lost { name, reason, source: None })
}

/// Waits until the first of `guards` is lost; without end if there are none.
pub(super) async fn first_loss(guards: &[LockGuard]) -> (LockName, LostReason) {
    let losses =
        guards.iter().map(|guard| async move { (guard.name().clone(), guard.lost().await) });
    match losses.collect::<FuturesUnordered<_>>().next().await {
        Some(loss) => loss,
        None => pending().await,
    }
}
