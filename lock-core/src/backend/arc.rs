//! A shared backend is a backend.

use std::sync::Arc;

use async_trait::async_trait;

use super::admin::{Changes, LockAdmin};
use super::answers::{Attempt, Extension, Grant, Recording, Release, Reserved};
use super::distributed_lock::{DistributedLock, LossWatch};
use super::waiter::WaiterHandle;
use crate::model::{
    BackendError, Capabilities, Claim, FencingToken, Finding, Holder, Lease, LockName, LockState,
    Occurrence, OwnerId, Record, Renewal, Reservation, Ttl, Whom,
};

/// Every method is forwarded, so that none falls back to a default.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<L: DistributedLock + ?Sized> DistributedLock for Arc<L> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn server_of(&self, name: &LockName) -> u64 {
        (**self).server_of(name)
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        (**self).try_acquire(claim, waiter).await
    }

    async fn acquire_while_free(&self, claims: &[Claim]) -> Result<Vec<Grant>, BackendError> {
        (**self).acquire_while_free(claims).await
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        (**self).extend_all(renewals).await
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        (**self).release(name, owner).await
    }

    async fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError> {
        (**self).release_or_reserve(hold).await
    }

    async fn release_after(
        &self,
        name: &LockName,
        owner: OwnerId,
        delay: Ttl,
    ) -> Result<Release, BackendError> {
        (**self).release_after(name, owner, delay).await
    }

    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        (**self).record(record).await
    }

    async fn recorded(
        &self,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<Option<FencingToken>, BackendError> {
        (**self).recorded(name, occurrence).await
    }

    async fn withdraw(&self, name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        (**self).withdraw(name, owner).await
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        (**self).watch(lease)
    }

    async fn extend(&self, renewal: &Renewal) -> Result<Extension, BackendError> {
        (**self).extend(renewal).await
    }

    async fn close(&self) -> Result<(), BackendError> {
        (**self).close().await
    }
}

/// Every method is forwarded, so that none falls back to a default.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<L: LockAdmin + ?Sized> LockAdmin for Arc<L> {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        (**self).inspect(name).await
    }

    fn changes(&self, name: &LockName) -> Option<Changes> {
        (**self).changes(name)
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        (**self).list(prefix, limit).await
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        (**self).evict(name, whom).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>, BackendError> {
        (**self).doctor().await
    }

    async fn doctor_under(&self, prefix: &str) -> Result<Vec<Finding>, BackendError> {
        (**self).doctor_under(prefix).await
    }
}
