//! Withdrawals that undo too little, or too much.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{Claim, WITHDRAWAL_REMEMBERED};
use lock_core::{BackendError, DistributedLock, LockAdmin, LockName, Outcome, OwnerId, Whom};
use tokio::time::Instant;

use super::flaw::{Flaw, Sound, Tried, Waiter, Withdrawn};

/// Releases the hold and remembers the withdrawal for a while, but leaves the place in the queue.
#[derive(Debug)]
pub(super) struct Remembered {
    withdrawn: Mutex<HashMap<OwnerId, Instant>>,
    time: Duration,
}

impl Remembered {
    pub(super) fn for_a(time: Duration) -> Self {
        Self { withdrawn: Mutex::default(), time }
    }

    pub(super) fn as_long_as_it_must_be() -> Self {
        Self::for_a(WITHDRAWAL_REMEMBERED)
    }

    fn is_withdrawn(&self, owner: OwnerId) -> bool {
        let withdrawn = self.withdrawn.lock().unwrap_or_else(PoisonError::into_inner);
        withdrawn.get(&owner).is_some_and(|since| since.elapsed() < self.time)
    }
}

#[async_trait]
impl Flaw for Remembered {
    async fn acquire(&self, sound: &Sound, claim: &Claim, waiter: Waiter<'_>) -> Tried {
        if self.is_withdrawn(claim.owner) {
            return Err(BackendError::withdrawn("memory"));
        }
        sound.acquire(claim, waiter).await
    }

    async fn withdraw(&self, sound: &Sound, name: &LockName, owners: &[OwnerId]) -> Withdrawn {
        let now = Instant::now();
        for &owner in owners {
            self.withdrawn.lock().unwrap_or_else(PoisonError::into_inner).insert(owner, now);
            // A release without a hold would look for waiters that have gone.
            if sound.own_token(name, owner).await?.is_some() {
                sound.release(name, owner).await?;
            }
        }
        Ok(())
    }
}

/// Refuses a late request with an error that suggests a retry.
#[derive(Debug)]
pub(super) struct RefusedForNow;

#[async_trait]
impl Flaw for RefusedForNow {
    async fn acquire(&self, sound: &Sound, claim: &Claim, waiter: Waiter<'_>) -> Tried {
        let attempt = sound.acquire(claim, waiter).await;
        attempt.map_err(|error| {
            BackendError::transient("memory", Outcome::NotApplied, "a row is missing", error)
        })
    }
}

/// A withdrawal ends the hold of any owner.
#[derive(Debug)]
pub(super) struct WithdrawalOfAnyOwner;

#[async_trait]
impl Flaw for WithdrawalOfAnyOwner {
    async fn withdraw(&self, sound: &Sound, name: &LockName, owners: &[OwnerId]) -> Withdrawn {
        sound.withdraw(name, owners).await?;
        sound.evict(name, &Whom::All).await.map(drop)
    }
}
