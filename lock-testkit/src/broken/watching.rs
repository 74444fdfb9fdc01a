//! What is told of a hold that goes on.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use lock_core::backend::LossWatch;
use lock_core::{BackendError, Lease, LockAdmin, LockName, LockState, LostReason};
use tokio::time::sleep;

use super::flaw::{Flaw, Sound};

/// A watch takes a break of its stream for the end of the hold.
#[derive(Debug)]
pub(super) struct WatchTellsOfNoLoss;

impl Flaw for WatchTellsOfNoLoss {
    fn watch(&self, _sound: &Sound, _lease: &Lease) -> Option<LossWatch> {
        Some(Box::pin(async {
            sleep(Duration::from_millis(100)).await;
            LostReason::Evicted
        }))
    }
}

/// Since when a lock is held is the time of the last look at it.
#[derive(Debug)]
pub(super) struct SinceMoves;

#[async_trait]
impl Flaw for SinceMoves {
    async fn inspect(&self, sound: &Sound, name: &LockName) -> Result<LockState, BackendError> {
        let mut state = sound.inspect(name).await?;
        if let Some(holder) = state.holders.first_mut() {
            holder.since = Some(SystemTime::now());
        }
        Ok(state)
    }
}
