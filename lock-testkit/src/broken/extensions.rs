//! Extensions of a hold that is not the caller's, or not any more.

use async_trait::async_trait;
use lock_core::backend::DistributedLockExt;
use lock_core::backend::{Extension, Renewal};
use lock_core::{DistributedLock, LockAdmin};

use super::flaw::{ExtensionResult, Flaw, Sound};

/// Everybody who knows the token can extend the hold.
#[derive(Debug)]
pub(super) struct AnyOwnerExtends;

#[async_trait]
impl Flaw for AnyOwnerExtends {
    async fn extend(&self, sound: &Sound, renewals: &[Renewal]) -> Vec<ExtensionResult> {
        let mut renewals = renewals.to_vec();
        for renewal in &mut renewals {
            if let Some(holder) = sound.claims.of(&renewal.name) {
                renewal.owner = holder.owner;
            }
        }
        sound.extend(&renewals).await
    }
}

/// A lost hold is extended if its owner holds the lock again.
#[derive(Debug)]
pub(super) struct AnyTokenExtends;

#[async_trait]
impl Flaw for AnyTokenExtends {
    async fn extend(&self, sound: &Sound, renewals: &[Renewal]) -> Vec<ExtensionResult> {
        let mut renewals = renewals.to_vec();
        for renewal in &mut renewals {
            if let Ok(Some(token)) = sound.own_token(&renewal.name, renewal.owner).await {
                renewal.token = token;
            }
        }
        sound.extend(&renewals).await
    }
}

/// An expired row is extended if nobody has replaced it.
#[derive(Debug)]
pub(super) struct ExtensionRevives;

impl ExtensionRevives {
    async fn extend_one(&self, sound: &Sound, renewal: &Renewal) -> ExtensionResult {
        let answer = sound.extend_one(renewal).await?;
        let is_free = sound.inspect(&renewal.name).await?.holder().is_none();
        let last = sound.claims.of(&renewal.name);
        match last.filter(|last| is_free && last.owner == renewal.owner) {
            Some(last) => {
                sound.acquire(&last, None).await?;
                Ok(Extension::Extended(renewal.ttl.as_duration()))
            }
            None => Ok(answer),
        }
    }
}

#[async_trait]
impl Flaw for ExtensionRevives {
    async fn extend(&self, sound: &Sound, renewals: &[Renewal]) -> Vec<ExtensionResult> {
        let mut answers = Vec::new();
        for renewal in renewals {
            answers.push(self.extend_one(sound, renewal).await);
        }
        answers
    }
}
