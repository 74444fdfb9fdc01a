//! Implements the backend traits for a shared backend.

use std::sync::Arc;

use async_trait::async_trait;

use super::admin::LockAdmin;
use super::answers::{Attempt, Extension, Release};
use super::distributed_lock::{DistributedLock, LossWatch};
use super::extensions::{RecordsRuns, ReservesTokens};
use super::waiter::WaiterHandle;
use crate::model::{BackendError, Capabilities, Claim, Lease, LockName, OwnerId, Renewal};

/// Forwards every method, so that none falls back to a default.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<L: DistributedLock + ?Sized> DistributedLock for Arc<L> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    async fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        (**self).acquire(claim, waiter).await
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        (**self).extend(renewals).await
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        (**self).release(name, owner).await
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        (**self).withdraw(name, owners).await
    }

    fn server_of(&self, name: &LockName) -> u64 {
        (**self).server_of(name)
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        (**self).watch(lease)
    }

    async fn close(&self) -> Result<(), BackendError> {
        (**self).close().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        (**self).admin()
    }

    fn token_ranges(&self) -> Option<&dyn ReservesTokens> {
        (**self).token_ranges()
    }

    fn run_records(&self) -> Option<&dyn RecordsRuns> {
        (**self).run_records()
    }
}
