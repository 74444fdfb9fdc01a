//! Extensions of what is not the caller's, or not any more.

use async_trait::async_trait;
use lock_core::backend::{Extension, Renewal};
use lock_core::{DistributedLock, LockAdmin, MemoryBackend};

use super::claims::Claims;
use super::flaw::{Answer, Flaw, own_token};

/// Whoever knows the token extends the hold.
#[derive(Debug, Default)]
pub(super) struct AnyOwnerExtends {
    sound: MemoryBackend,
    claims: Claims,
}

#[async_trait]
impl Flaw for AnyOwnerExtends {
    fn sound(&self) -> &MemoryBackend {
        &self.sound
    }

    fn claims(&self) -> Option<&Claims> {
        Some(&self.claims)
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Answer> {
        let mut renewals = renewals.to_vec();
        for renewal in &mut renewals {
            if let Some(holder) = self.claims.of(&renewal.name) {
                renewal.owner = holder.owner;
            }
        }
        self.sound.extend_all(&renewals).await
    }
}

/// A lost hold lasts on once its owner holds the lock again.
#[derive(Debug, Default)]
pub(super) struct AnyTokenExtends(MemoryBackend);

#[async_trait]
impl Flaw for AnyTokenExtends {
    fn sound(&self) -> &MemoryBackend {
        &self.0
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Answer> {
        let mut renewals = renewals.to_vec();
        for renewal in &mut renewals {
            if let Ok(Some(token)) = own_token(&self.0, &renewal.name, renewal.owner).await {
                renewal.token = token;
            }
        }
        self.0.extend_all(&renewals).await
    }
}

/// A row that nobody took over is extended, though it expired.
#[derive(Debug, Default)]
pub(super) struct ExtensionRevives {
    sound: MemoryBackend,
    claims: Claims,
}

impl ExtensionRevives {
    async fn extend_one(&self, renewal: &Renewal) -> Answer {
        let answer = self.sound.extend(renewal).await?;
        let is_free = self.sound.inspect(&renewal.name).await?.holder.is_none();
        let last = self.claims.of(&renewal.name);
        match last.filter(|last| is_free && last.owner == renewal.owner) {
            Some(last) => {
                self.sound.try_acquire(&last, None).await?;
                Ok(Extension::Extended(renewal.ttl.as_duration()))
            }
            None => Ok(answer),
        }
    }
}

#[async_trait]
impl Flaw for ExtensionRevives {
    fn sound(&self) -> &MemoryBackend {
        &self.sound
    }

    fn claims(&self) -> Option<&Claims> {
        Some(&self.claims)
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Answer> {
        let mut answers = Vec::new();
        for renewal in renewals {
            answers.push(self.extend_one(renewal).await);
        }
        answers
    }
}
