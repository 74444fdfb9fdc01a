//! Acquires that do not find their own grant.

use async_trait::async_trait;
use lock_core::backend::{Attempt, Claim};
use lock_core::{Contention, DistributedLock};

use super::flaw::{Flaw, Sound, Tried, Waiter};

/// A repeated request finds its own hold in its way, and is busy.
#[derive(Debug)]
pub(super) struct RepeatIsBusy;

#[async_trait]
impl Flaw for RepeatIsBusy {
    async fn acquire(&self, sound: &Sound, claim: &Claim, waiter: Waiter<'_>) -> Tried {
        if sound.own_token(&claim.name, claim.owner).await?.is_some() {
            return Ok(Attempt::Busy(Contention::unknown()));
        }
        sound.acquire(claim, waiter).await
    }
}

/// A repeated request makes another grant, with another token.
#[derive(Debug)]
pub(super) struct RepeatIsAnotherGrant;

#[async_trait]
impl Flaw for RepeatIsAnotherGrant {
    async fn acquire(&self, sound: &Sound, claim: &Claim, waiter: Waiter<'_>) -> Tried {
        sound.release(&claim.name, claim.owner).await?;
        sound.acquire(claim, waiter).await
    }
}
