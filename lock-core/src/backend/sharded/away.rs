//! A shard that could not be reached when the others were opened.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::OnceCell;

use super::shard::Open;
use super::weakest::weakest;
use crate::backend::admin::{Changes, LockAdmin};
use crate::backend::answers::{Attempt, Extension, Grant, Recording, Release, Reserved};
use crate::backend::distributed_lock::{DistributedLock, LossWatch};
use crate::backend::waiter::WaiterHandle;
use crate::model::{
    BackendError, Capabilities, Claim, FencingToken, Finding, Holder, Lease, LockError, LockName,
    LockState, Occurrence, OwnerId, Record, Renewal, Reservation, Ttl, Whom,
};

/// A backend that is opened by the first request that finds its store.
pub(super) struct Away {
    /// What all shards together can do, as it was told before this one could be asked.
    told: Capabilities,
    open: Box<Open>,
    opened: OnceCell<Arc<dyn DistributedLock>>,
}

impl Away {
    pub(super) fn new(told: Capabilities, open: Box<Open>) -> Self {
        Self { told, open, opened: OnceCell::new() }
    }

    async fn backend(&self) -> Result<&Arc<dyn DistributedLock>, BackendError> {
        self.opened.get_or_try_init(|| self.open()).await
    }

    async fn open(&self) -> Result<Arc<dyn DistributedLock>, BackendError> {
        let backend = (self.open)().await.map_err(cannot_be_opened)?;
        // C22, C30: what was told of all must go for this one too.
        let all = weakest([self.told.clone(), backend.capabilities()]);
        match all.as_ref() == Some(&self.told) && backend.capabilities().tokens == self.told.tokens
        {
            true => Ok(backend),
            false => Err(BackendError::refusal(
                self.told.backend,
                "it can do less than the others: connect again while it can be reached",
            )),
        }
    }
}

fn cannot_be_opened(error: LockError) -> BackendError {
    match error {
        LockError::Backend { source, .. } => source,
        error => BackendError::refusal("shards", error.to_string()),
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl DistributedLock for Away {
    fn capabilities(&self) -> Capabilities {
        self.opened.get().map_or_else(|| self.told.clone(), |backend| backend.capabilities())
    }

    fn server_of(&self, name: &LockName) -> u64 {
        self.opened.get().map_or(0, |backend| backend.server_of(name))
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        self.backend().await?.try_acquire(claim, waiter).await
    }

    async fn acquire_while_free(&self, claims: &[Claim]) -> Result<Vec<Grant>, BackendError> {
        self.backend().await?.acquire_while_free(claims).await
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        match self.backend().await {
            Ok(backend) => backend.extend_all(renewals).await,
            Err(error) => renewals.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn extend(&self, renewal: &Renewal) -> Result<Extension, BackendError> {
        self.backend().await?.extend(renewal).await
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.backend().await?.release(name, owner).await
    }

    async fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError> {
        self.backend().await?.release_or_reserve(hold).await
    }

    async fn release_after(
        &self,
        name: &LockName,
        owner: OwnerId,
        delay: Ttl,
    ) -> Result<Release, BackendError> {
        self.backend().await?.release_after(name, owner, delay).await
    }

    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        self.backend().await?.record(record).await
    }

    async fn recorded(
        &self,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<Option<FencingToken>, BackendError> {
        self.backend().await?.recorded(name, occurrence).await
    }

    async fn withdraw(&self, name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        self.backend().await?.withdraw(name, owner).await
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        self.opened.get()?.watch(lease)
    }

    /// One that was never opened keeps nothing on its server.
    async fn close(&self) -> Result<(), BackendError> {
        match self.opened.get() {
            Some(backend) => backend.close().await,
            None => Ok(()),
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl LockAdmin for Away {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        self.backend().await?.inspect(name).await
    }

    fn changes(&self, name: &LockName) -> Option<Changes> {
        self.opened.get()?.changes(name)
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        self.backend().await?.list(prefix, limit).await
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        self.backend().await?.evict(name, whom).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>, BackendError> {
        self.backend().await?.doctor().await
    }

    async fn doctor_under(&self, prefix: &str) -> Result<Vec<Finding>, BackendError> {
        self.backend().await?.doctor_under(prefix).await
    }
}

impl fmt::Debug for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Away").field("opened", &self.opened.get()).finish_non_exhaustive()
    }
}
