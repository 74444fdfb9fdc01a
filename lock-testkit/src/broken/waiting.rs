//! Waiters that are not served.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use lock_core::backend::{Attempt, Claim};
use lock_core::{Contention, DistributedLock, LockAdmin, LockName, OwnerId, Whom};

use super::flaw::{Evicted, Flaw, Sound, Tried, Waiter};

/// Claims to wake waiters, and wakes none.
#[derive(Debug)]
pub(super) struct WakesNobody;

#[async_trait]
impl Flaw for WakesNobody {
    async fn acquire(&self, sound: &Sound, claim: &Claim, _waiter: Waiter<'_>) -> Tried {
        sound.acquire(claim, None).await
    }
}

/// An eviction does not wake the waiters of that time.
#[derive(Debug, Default)]
pub(super) struct EvictionForgetsWaiters {
    waiting: Mutex<HashSet<(LockName, OwnerId)>>,
    forgotten: Mutex<HashSet<OwnerId>>,
}

impl EvictionForgetsWaiters {
    fn waiting(&self) -> MutexGuard<'_, HashSet<(LockName, OwnerId)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forgotten(&self) -> MutexGuard<'_, HashSet<OwnerId>> {
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Flaw for EvictionForgetsWaiters {
    async fn acquire(&self, sound: &Sound, claim: &Claim, waiter: Waiter<'_>) -> Tried {
        if self.forgotten().contains(&claim.owner) {
            return Ok(Attempt::Busy(Contention::unknown()));
        }
        let attempt = sound.acquire(claim, None).await?;
        if waiter.is_some() && matches!(attempt, Attempt::Busy(_)) {
            self.waiting().insert((claim.name.clone(), claim.owner));
        }
        Ok(attempt)
    }

    async fn evict(&self, sound: &Sound, name: &LockName, whom: &Whom) -> Evicted {
        let waiting = self.waiting().clone();
        let of_this = waiting.into_iter().filter(|(waited_for, _)| waited_for == name);
        self.forgotten().extend(of_this.map(|(_, owner)| owner));
        sound.evict(name, whom).await
    }
}

/// A busy lock shows nothing of its holder.
#[derive(Debug)]
pub(super) struct BusyTellsNothing;

#[async_trait]
impl Flaw for BusyTellsNothing {
    async fn acquire(&self, sound: &Sound, claim: &Claim, waiter: Waiter<'_>) -> Tried {
        Ok(match sound.acquire(claim, waiter).await? {
            Attempt::Busy(_) => Attempt::Busy(Contention::unknown()),
            granted => granted,
        })
    }
}
