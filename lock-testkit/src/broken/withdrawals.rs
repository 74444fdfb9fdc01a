//! Withdrawals that undo too little, or too much.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{Attempt, Claim, WITHDRAWAL_REMEMBERED, WaiterHandle};
use lock_core::{
    BackendError, DistributedLock, LockAdmin, LockName, MemoryBackend, Outcome, OwnerId,
};
use tokio::time::Instant;

use super::flaw::Flaw;

/// Releases the hold and remembers the withdrawal for a while, and forgets the place in the queue.
#[derive(Debug)]
pub(super) struct Remembered {
    sound: MemoryBackend,
    withdrawn: Mutex<HashMap<OwnerId, Instant>>,
    time: Duration,
}

impl Remembered {
    pub(super) fn for_a(time: Duration) -> Self {
        Self { sound: MemoryBackend::new(), withdrawn: Mutex::default(), time }
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
    fn sound(&self) -> &MemoryBackend {
        &self.sound
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        if self.is_withdrawn(claim.owner) {
            return Err(BackendError::withdrawn("memory"));
        }
        self.sound.try_acquire(claim, waiter).await
    }

    async fn withdraw(&self, name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        let now = Instant::now();
        self.withdrawn.lock().unwrap_or_else(PoisonError::into_inner).insert(owner, now);
        self.sound.release(name, owner).await.map(drop)
    }
}

/// Refuses a late request as if another try could help.
#[derive(Debug, Default)]
pub(super) struct RefusedForNow(MemoryBackend);

#[async_trait]
impl Flaw for RefusedForNow {
    fn sound(&self) -> &MemoryBackend {
        &self.0
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let attempt = self.0.try_acquire(claim, waiter).await;
        attempt.map_err(|error| {
            BackendError::transient("memory", Outcome::NotApplied, "a row is missing", error)
        })
    }
}

/// A withdrawal ends the hold of any owner.
#[derive(Debug, Default)]
pub(super) struct WithdrawalOfAnyOwner(MemoryBackend);

#[async_trait]
impl Flaw for WithdrawalOfAnyOwner {
    fn sound(&self) -> &MemoryBackend {
        &self.0
    }

    async fn withdraw(&self, name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        self.0.withdraw(name, owner).await?;
        self.0.evict(name).await.map(drop)
    }
}
