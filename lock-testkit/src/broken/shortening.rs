//! Extensions that take time away.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use lock_core::backend::{Attempt, Claim, Extension, Renewal, WaiterHandle};
use lock_core::{BackendError, DistributedLock, LockAdmin, LockName, LockState, MemoryBackend};
use tokio::time::Instant;

use super::flaw::{Answer, Flaw};

/// An extension sets the end of the hold, also if it is sooner than before.
#[derive(Debug, Default)]
pub(super) struct ExtensionShortens {
    sound: MemoryBackend,
    ends: Mutex<HashMap<LockName, Instant>>,
}

impl ExtensionShortens {
    fn ends(&self) -> MutexGuard<'_, HashMap<LockName, Instant>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the hold if its last extension is over.
    async fn expire(&self, name: &LockName) -> Result<(), BackendError> {
        let is_over = self.ends().get(name).is_some_and(|end| *end <= Instant::now());
        if is_over {
            self.ends().remove(name);
            self.sound.evict(name).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Flaw for ExtensionShortens {
    fn sound(&self) -> &MemoryBackend {
        &self.sound
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        self.expire(&claim.name).await?;
        self.sound.try_acquire(claim, waiter).await
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Answer> {
        let answers = self.sound.extend_all(renewals).await;
        for (renewal, answer) in renewals.iter().zip(&answers) {
            if let Ok(Extension::Extended(ttl)) = answer {
                self.ends().insert(renewal.name.clone(), Instant::now() + *ttl);
            }
        }
        answers
    }

    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        self.expire(name).await?;
        let mut state = self.sound.inspect(name).await?;
        if let (Some(holder), Some(end)) = (&mut state.holder, self.ends().get(name)) {
            holder.ttl_left = Some(end.saturating_duration_since(Instant::now()));
        }
        Ok(state)
    }
}
