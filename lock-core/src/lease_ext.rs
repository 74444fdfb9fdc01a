//! Acquiring without a client: a plain lease, which nobody renews.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;

use crate::backend::DistributedLock;
use crate::engine::{ClaimState, Limits, Together, Waiting};
use crate::model::{Lease, LockError, LockRequest, SystemClock};

/// How long a call that failed spends on taking its claim back: no longer than C17 allows beyond a
/// time-out.
const WITHDRAW_LIMIT: Duration = Duration::from_millis(100);

/// Acquires plain leases from any backend, for programs that do without a [`LockClient`].
///
/// [`LockClient`]: crate::LockClient
#[async_trait]
pub trait LeaseExt: DistributedLock {
    /// Acquires a lock as a plain lease: without waiting, within a bound, or for ever, as the
    /// request says.
    ///
    /// **Nobody renews the lease, and nobody gives it back** when it is dropped; hold it through a
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
    /// A call that was dropped, or that failed while the server was silent, may leave a hold behind, for
    /// one TTL at the longest. A
    /// [`LockClient`](crate::LockClient) gives it back at once.
    async fn acquire_lease(&self, request: &LockRequest) -> Result<Lease, LockError> {
        let claim = request.claim()?;
        let waiting = Waiting::new(self, &SystemClock, Limits::default());
        let mut state = ClaimState::default();
        let (wait, listener) = (request.wait_policy(), request.listener());
        let mut alone = Together::default();
        let acquired = waiting.acquire(&claim, wait, listener, &mut state, &mut alone).await;
        if acquired.is_err() && state != ClaimState::Absent {
            let _ = timeout(WITHDRAW_LIMIT, self.withdraw(&claim.name, claim.owner)).await;
        }
        acquired
    }
}

impl<L: DistributedLock + ?Sized> LeaseExt for L {}
