//! The trait's operations.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use lock_core::backend::{Attempt, Claim, Extension, LossWatch, Release, Renewal, WaiterHandle};
use lock_core::{
    BackendError, Capabilities, DistributedLock, Finding, Holder, Lease, LockAdmin, LockError,
    LockName, LockState, LostReason, Order, OwnerId, Renewals, TokenDurability, Wakeup,
};

use crate::cluster::Cluster;
use crate::doctor;
use crate::error::BACKEND;
use crate::fence::EtcdFence;
use crate::options::EtcdOptions;
use crate::renewal::{BATCH, Hold};

/// How old a hold is when the watch of its key is opened, which reads the key: most holds are over by
/// then, and cost the server nothing.
const WATCHED_AFTER: Duration = Duration::from_millis(100);

/// Locks in one etcd cluster.
///
/// Clones share one connection, one stream of watches and the leases in stock. See the
/// documentation of the crate for what it guarantees.
#[derive(Clone)]
pub struct EtcdBackend {
    cluster: Cluster,
}

impl EtcdBackend {
    /// Connects to the cluster at `url`, and makes sure that a member answers. For the form of the
    /// URL see [`EtcdOptions::new`].
    ///
    /// # Errors
    /// - [`LockError::Config`] if the URL cannot be used. It is not repeated in the text, since it
    ///   may hold a password.
    /// - [`LockError::Backend`] if no member can be reached, or we are refused.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        Self::with_options(EtcdOptions::new(url)).await
    }

    pub(crate) async fn with_options(options: EtcdOptions) -> Result<Self, LockError> {
        Ok(Self { cluster: Cluster::connect(options.target()?).await? })
    }

    /// The fence of a resource in this cluster.
    pub fn fence(&self, resource: impl AsRef<str>) -> EtcdFence {
        EtcdFence::new(self.cluster.server.clone(), self.cluster.root.mark(resource.as_ref()))
    }
}

#[async_trait]
impl DistributedLock for EtcdBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(
            BACKEND,
            Order::Fifo,
            Wakeup::Push,
            Renewals::Single,
            TokenDurability::Store,
            Duration::from_secs(1),
            "while most members are down nobody gets a lock and holders lose theirs at their \
             deadlines; a change of leader keeps holds for longer, never shorter; restoring a backup \
             brings back old locks and old tokens",
        )
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        self.cluster.attempt(claim, waiter).await
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        let holds: Vec<Hold<'_>> = renewals.iter().map(Hold::renewed).collect();
        join_all(holds.chunks(BATCH).map(|batch| self.cluster.extend_batch(batch)))
            .await
            .into_iter()
            .flatten()
            .collect()
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.cluster.release(name, owner).await
    }

    async fn withdraw(&self, name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        self.cluster.withdraw(name, owner).await
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        let key = self.cluster.root.claim(lease.name(), lease.owner());
        let watches = self.cluster.watches.clone();
        Some(Box::pin(async move {
            tokio::time::sleep(WATCHED_AFTER).await;
            watches.gone(key.as_bytes()).await;
            LostReason::Evicted
        }))
    }
}

#[async_trait]
impl LockAdmin for EtcdBackend {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        self.cluster.inspect(name).await
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        self.cluster.list_held(prefix, limit).await
    }

    async fn evict(&self, name: &LockName) -> Result<Option<Holder>, BackendError> {
        self.cluster.evict(name).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>, BackendError> {
        doctor::examine(&self.cluster).await
    }
}

impl fmt::Debug for EtcdBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdBackend")
            .field("root", &self.cluster.root.as_str())
            .finish_non_exhaustive()
    }
}
