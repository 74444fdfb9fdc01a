//! A sound backend of which something is replaced.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use lock_core::backend::{Attempt, Claim, Extension, LossWatch, Release, Renewal, WaiterHandle};
use lock_core::{
    BackendError, Capabilities, DistributedLock, FencingToken, Finding, Holder, Lease, LockAdmin,
    LockName, LockState, MemoryBackend, OwnerId,
};

use super::claims::Claims;

/// What a backend answers to one renewal.
pub(super) type Answer = Result<Extension, BackendError>;

/// What a broken backend does otherwise than the sound one: it replaces some of these operations.
#[async_trait]
pub(super) trait Flaw: Debug + Send + Sync + 'static {
    /// The backend that does all that is not replaced.
    fn sound(&self) -> &MemoryBackend;

    /// Where the claims are noted that were granted, if this flaw is about those.
    fn claims(&self) -> Option<&Claims> {
        None
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        self.sound().try_acquire(claim, waiter).await
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Answer> {
        self.sound().extend_all(renewals).await
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.sound().release(name, owner).await
    }

    async fn withdraw(&self, name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        self.sound().withdraw(name, owner).await
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        self.sound().watch(lease)
    }

    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        self.sound().inspect(name).await
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        self.sound().list(prefix, limit).await
    }

    async fn evict(&self, name: &LockName) -> Result<Option<Holder>, BackendError> {
        self.sound().evict(name).await
    }
}

/// The broken backend with this flaw.
pub(super) fn flawed(flaw: impl Flaw) -> Arc<dyn DistributedLock> {
    Arc::new(Flawed(flaw))
}

/// The token of `owner`, if it holds the lock: the owner is known by its first digits.
pub(super) async fn own_token(
    backend: &MemoryBackend,
    name: &LockName,
    owner: OwnerId,
) -> Result<Option<FencingToken>, BackendError> {
    let holder = backend.inspect(name).await?.holder;
    let own = holder.filter(|holder| holder.owner.as_deref() == Some(&owner.to_string()));
    Ok(own.and_then(|holder| holder.token))
}

#[derive(Debug)]
struct Flawed<F>(F);

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<F: Flaw> DistributedLock for Flawed<F> {
    fn capabilities(&self) -> Capabilities {
        self.0.sound().capabilities()
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let attempt = self.0.try_acquire(claim, waiter).await?;
        if let Some(claims) = self.0.claims() {
            claims.note(claim, &attempt);
        }
        Ok(attempt)
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Answer> {
        self.0.extend_all(renewals).await
    }

    async fn extend(&self, renewal: &Renewal) -> Answer {
        let answer = self.0.extend_all(std::slice::from_ref(renewal)).await.pop();
        answer.expect("an answer for each renewal")
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.0.claims().inspect(|claims| claims.ended_by(name, owner));
        self.0.release(name, owner).await
    }

    async fn withdraw(&self, name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        self.0.claims().inspect(|claims| claims.ended_by(name, owner));
        self.0.withdraw(name, owner).await
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        self.0.watch(lease)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<F: Flaw> LockAdmin for Flawed<F> {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        self.0.inspect(name).await
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        self.0.list(prefix, limit).await
    }

    async fn evict(&self, name: &LockName) -> Result<Option<Holder>, BackendError> {
        self.0.claims().inspect(|claims| claims.ended(name));
        self.0.evict(name).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>, BackendError> {
        self.0.sound().doctor().await
    }
}

/// Nothing is replaced: what the suite refuses of the others is their flaw, not this wrapper.
#[derive(Debug, Default)]
pub(super) struct Flawless(MemoryBackend);

impl Flaw for Flawless {
    fn sound(&self) -> &MemoryBackend {
        &self.0
    }
}
