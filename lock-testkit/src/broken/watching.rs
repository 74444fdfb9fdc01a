//! What is told of a hold that goes on.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use lock_core::backend::LossWatch;
use lock_core::{BackendError, Lease, LockAdmin, LockName, LockState, LostReason, MemoryBackend};
use tokio::time::sleep;

use super::flaw::Flaw;

/// A watch takes a break of its stream for the end of the hold.
#[derive(Debug, Default)]
pub(super) struct WatchTellsOfNoLoss(MemoryBackend);

impl Flaw for WatchTellsOfNoLoss {
    fn sound(&self) -> &MemoryBackend {
        &self.0
    }

    fn watch(&self, _lease: &Lease) -> Option<LossWatch> {
        Some(Box::pin(async {
            sleep(Duration::from_millis(100)).await;
            LostReason::Evicted
        }))
    }
}

/// Since when a lock is held is the time of the last look at it.
#[derive(Debug, Default)]
pub(super) struct SinceMoves(MemoryBackend);

#[async_trait]
impl Flaw for SinceMoves {
    fn sound(&self) -> &MemoryBackend {
        &self.0
    }

    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let mut state = self.0.inspect(name).await?;
        if let Some(holder) = &mut state.holder {
            holder.since = Some(SystemTime::now());
        }
        Ok(state)
    }
}
