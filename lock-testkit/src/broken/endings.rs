//! Releases and evictions that end the wrong hold, or report the wrong result.

use async_trait::async_trait;
use lock_core::backend::Release;
use lock_core::{DistributedLock, LockAdmin, LockName, OwnerId, Whom};

use super::flaw::{Evicted, Flaw, Released, Sound};

/// A release ends the hold of any owner.
#[derive(Debug)]
pub(super) struct ReleaseOfAnyOwner;

#[async_trait]
impl Flaw for ReleaseOfAnyOwner {
    async fn release(&self, sound: &Sound, name: &LockName, _owner: OwnerId) -> Released {
        let ended = sound.evict(name, &Whom::All).await?;
        Ok(if ended.is_empty() { Release::NotHeld } else { Release::Released })
    }
}

/// A release reports that it ended a hold, even if there was none.
#[derive(Debug)]
pub(super) struct AlwaysReleased;

#[async_trait]
impl Flaw for AlwaysReleased {
    async fn release(&self, sound: &Sound, name: &LockName, owner: OwnerId) -> Released {
        sound.release(name, owner).await?;
        Ok(Release::Released)
    }
}

/// An eviction does not report the former holders.
#[derive(Debug)]
pub(super) struct EvictionTellsNobody;

#[async_trait]
impl Flaw for EvictionTellsNobody {
    async fn evict(&self, sound: &Sound, name: &LockName, whom: &Whom) -> Evicted {
        sound.evict(name, whom).await?;
        Ok(Vec::new())
    }
}
