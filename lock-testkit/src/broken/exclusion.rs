//! Two steps where one is needed.

use async_trait::async_trait;
use lock_core::backend::{Attempt, Claim, WaiterHandle};
use lock_core::{BackendError, DistributedLock, LockAdmin, MemoryBackend};
use tokio::task::yield_now;

use super::flaw::Flaw;

/// Reads who holds the lock in one transaction, and writes the new owner in another.
#[derive(Debug, Default)]
pub(super) struct CheckThenGrant(MemoryBackend);

#[async_trait]
impl Flaw for CheckThenGrant {
    fn sound(&self) -> &MemoryBackend {
        &self.0
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        if self.0.inspect(&claim.name).await?.holder.is_none() {
            // So long does it take until the write comes.
            yield_now().await;
            self.0.evict(&claim.name).await?;
        }
        self.0.try_acquire(claim, waiter).await
    }
}
