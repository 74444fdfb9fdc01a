//! Releases and evictions that end, or tell, something else.

use async_trait::async_trait;
use lock_core::backend::Release;
use lock_core::{
    BackendError, DistributedLock, Holder, LockAdmin, LockName, MemoryBackend, OwnerId,
};

use super::flaw::Flaw;

/// A release ends the hold of any owner.
#[derive(Debug, Default)]
pub(super) struct ReleaseOfAnyOwner(MemoryBackend);

#[async_trait]
impl Flaw for ReleaseOfAnyOwner {
    fn sound(&self) -> &MemoryBackend {
        &self.0
    }

    async fn release(&self, name: &LockName, _owner: OwnerId) -> Result<Release, BackendError> {
        let ended = self.0.evict(name).await?;
        Ok(if ended.is_some() { Release::Released } else { Release::NotHeld })
    }
}

/// A release says that it ended a hold, also where there was none.
#[derive(Debug, Default)]
pub(super) struct AlwaysReleased(MemoryBackend);

#[async_trait]
impl Flaw for AlwaysReleased {
    fn sound(&self) -> &MemoryBackend {
        &self.0
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.0.release(name, owner).await?;
        Ok(Release::Released)
    }
}

/// An eviction does not tell whose hold it ended.
#[derive(Debug, Default)]
pub(super) struct EvictionTellsNobody(MemoryBackend);

#[async_trait]
impl Flaw for EvictionTellsNobody {
    fn sound(&self) -> &MemoryBackend {
        &self.0
    }

    async fn evict(&self, name: &LockName) -> Result<Option<Holder>, BackendError> {
        self.0.evict(name).await?;
        Ok(None)
    }
}
