//! Flaws of inspections and watches.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::stream;
use lock_core::backend::{Changes, LossWatch};
use lock_core::{BackendError, Lease, LockAdmin, LockName, LockState, LostReason};
use tokio::time::sleep;

use super::flaw::{Flaw, Sound};

/// A watch reports a break of its stream as the end of the hold.
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

/// The time of the grant moves with each inspection.
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

/// An inspection returns an earlier state, like a cache that each inspection fills.
#[derive(Debug, Default)]
pub(super) struct InspectsLate {
    seen: Mutex<HashMap<LockName, LockState>>,
}

#[async_trait]
impl Flaw for InspectsLate {
    async fn inspect(&self, sound: &Sound, name: &LockName) -> Result<LockState, BackendError> {
        let now = sound.inspect(name).await?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(seen.insert(name.clone(), now.clone()).unwrap_or(now))
    }
}

/// An expired hold is shown until another is granted.
#[derive(Debug, Default)]
pub(super) struct ShowsTheExpired {
    shown: Mutex<HashMap<LockName, LockState>>,
}

#[async_trait]
impl Flaw for ShowsTheExpired {
    async fn inspect(&self, sound: &Sound, name: &LockName) -> Result<LockState, BackendError> {
        let now = sound.inspect(name).await?;
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        match now.holder().cloned() {
            None if sound.claims.names().contains(name) => {
                Ok(shown.get(name).cloned().unwrap_or(now))
            }
            _ => {
                shown.insert(name.clone(), now.clone());
                Ok(now)
            }
        }
    }
}

/// Observers of a lock are promised signals, and get none.
#[derive(Debug)]
pub(super) struct TellsNoChanges;

impl Flaw for TellsNoChanges {
    fn changes(&self, _sound: &Sound, _name: &LockName) -> Option<Changes> {
        Some(Box::pin(stream::pending()))
    }
}
