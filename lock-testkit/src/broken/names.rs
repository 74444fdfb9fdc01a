//! Names that the store changes.

use async_trait::async_trait;
use lock_core::backend::{Claim, Renewal};
use lock_core::{BackendError, DistributedLock, LockAdmin, LockName, LockState, OwnerId, Whom};

use super::flaw::{Evicted, ExtensionResult, Flaw, Released, Sound, Tried, Waiter, Withdrawn};

/// Stores each name in a changed form, so that some names become equal.
#[derive(Debug)]
pub(super) struct Names {
    stored: fn(&str) -> String,
}

impl Names {
    pub(super) fn stored(stored: fn(&str) -> String) -> Self {
        Self { stored }
    }

    fn of(&self, name: &LockName) -> LockName {
        LockName::new((self.stored)(name.as_str())).expect("a good name")
    }
}

/// Behaves like a collation that ignores case.
pub(super) fn in_lower_case(name: &str) -> String {
    name.to_lowercase()
}

/// Behaves like a column of fixed length.
pub(super) fn without_blanks_at_the_end(name: &str) -> String {
    name.trim_end().to_owned()
}

/// Behaves like a column that is too short.
pub(super) fn cut_at_255(name: &str) -> String {
    name.chars().take(255).collect()
}

#[async_trait]
impl Flaw for Names {
    async fn acquire(&self, sound: &Sound, claim: &Claim, waiter: Waiter<'_>) -> Tried {
        let mut claim = claim.clone();
        claim.name = self.of(&claim.name);
        sound.acquire(&claim, waiter).await
    }

    async fn extend(&self, sound: &Sound, renewals: &[Renewal]) -> Vec<ExtensionResult> {
        let mut renewals = renewals.to_vec();
        for renewal in &mut renewals {
            renewal.name = self.of(&renewal.name);
        }
        sound.extend(&renewals).await
    }

    async fn release(&self, sound: &Sound, name: &LockName, owner: OwnerId) -> Released {
        sound.release(&self.of(name), owner).await
    }

    async fn withdraw(&self, sound: &Sound, name: &LockName, owners: &[OwnerId]) -> Withdrawn {
        sound.withdraw(&self.of(name), owners).await
    }

    async fn inspect(&self, sound: &Sound, name: &LockName) -> Result<LockState, BackendError> {
        let mut state = sound.inspect(&self.of(name)).await?;
        state.name = name.clone();
        Ok(state)
    }

    async fn evict(&self, sound: &Sound, name: &LockName, whom: &Whom) -> Evicted {
        sound.evict(&self.of(name), whom).await
    }
}
