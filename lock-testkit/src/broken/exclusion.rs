//! Two steps in place of one atomic step.

use async_trait::async_trait;
use lock_core::backend::Claim;
use lock_core::{DistributedLock, LockAdmin, Whom};
use tokio::task::yield_now;

use super::flaw::{Flaw, Sound, Tried, Waiter};

/// Reads the holder of the lock in one transaction, and writes the new owner in another.
#[derive(Debug)]
pub(super) struct CheckThenGrant;

#[async_trait]
impl Flaw for CheckThenGrant {
    async fn acquire(&self, sound: &Sound, claim: &Claim, waiter: Waiter<'_>) -> Tried {
        if sound.inspect(&claim.name).await?.holder().is_none() {
            // The write comes later.
            yield_now().await;
            sound.evict(&claim.name, &Whom::All).await?;
        }
        sound.acquire(claim, waiter).await
    }
}
