//! Extensions that shorten a hold.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use lock_core::backend::{Claim, Extension, Renewal};
use lock_core::{BackendError, DistributedLock, LockAdmin, LockName, LockState, Whom};
use tokio::time::Instant;

use super::flaw::{ExtensionResult, Flaw, Sound, Tried, Waiter};

/// An extension sets the end of the hold, even to an earlier time.
#[derive(Debug, Default)]
pub(super) struct ExtensionShortens {
    ends: Mutex<HashMap<LockName, Instant>>,
}

impl ExtensionShortens {
    fn ends(&self) -> MutexGuard<'_, HashMap<LockName, Instant>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the hold if its last extension is over.
    async fn expire(&self, sound: &Sound, name: &LockName) -> Result<(), BackendError> {
        let is_over = self.ends().get(name).is_some_and(|end| *end <= Instant::now());
        if is_over {
            self.ends().remove(name);
            sound.evict(name, &Whom::All).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Flaw for ExtensionShortens {
    async fn acquire(&self, sound: &Sound, claim: &Claim, waiter: Waiter<'_>) -> Tried {
        self.expire(sound, &claim.name).await?;
        sound.acquire(claim, waiter).await
    }

    async fn extend(&self, sound: &Sound, renewals: &[Renewal]) -> Vec<ExtensionResult> {
        let answers = sound.extend(renewals).await;
        for (renewal, answer) in renewals.iter().zip(&answers) {
            if let Ok(Extension::Extended(ttl)) = answer {
                self.ends().insert(renewal.name.clone(), Instant::now() + *ttl);
            }
        }
        answers
    }

    async fn inspect(&self, sound: &Sound, name: &LockName) -> Result<LockState, BackendError> {
        self.expire(sound, name).await?;
        let mut state = sound.inspect(name).await?;
        if let (Some(holder), Some(end)) = (state.holders.first_mut(), self.ends().get(name)) {
            holder.ttl_left = Some(end.saturating_duration_since(Instant::now()));
        }
        Ok(state)
    }
}
