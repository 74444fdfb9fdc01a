//! Acquires that do not find their own grant.

use async_trait::async_trait;
use lock_core::backend::{Attempt, Claim, WaiterHandle};
use lock_core::{BackendError, Contention, DistributedLock, MemoryBackend};

use super::flaw::{Flaw, own_token};

/// A repeat is in its own way.
#[derive(Debug, Default)]
pub(super) struct RepeatIsBusy(MemoryBackend);

#[async_trait]
impl Flaw for RepeatIsBusy {
    fn sound(&self) -> &MemoryBackend {
        &self.0
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        if own_token(&self.0, &claim.name, claim.owner).await?.is_some() {
            return Ok(Attempt::Busy(Contention::unknown()));
        }
        self.0.try_acquire(claim, waiter).await
    }
}

/// A repeat is a grant of its own, with a token of its own.
#[derive(Debug, Default)]
pub(super) struct RepeatIsAnotherGrant(MemoryBackend);

#[async_trait]
impl Flaw for RepeatIsAnotherGrant {
    fn sound(&self) -> &MemoryBackend {
        &self.0
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        self.0.release(&claim.name, claim.owner).await?;
        self.0.try_acquire(claim, waiter).await
    }
}
