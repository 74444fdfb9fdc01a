//! The operations of the backend's traits.

use futures_util::future::try_join_all;
use lock_core::backend::{AcquiresSeveral, RecordsRuns, ReservesTokens};
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{
    Attempt, Changes, Claim, Extension, Grant, LossWatch, Record, Recording, Release, Renewal,
    Reservation, Reserved, WaiterHandle,
};
use lock_core::{
    BackendError, Capabilities, DistributedLock, FencingToken, Finding, Holder, Kinds, Lease,
    LockAdmin, LockError, LockName, LockState, LostReason, Occurrence, Order, OwnerId, RecordedRun,
    Renewals, TokenDurability, Ttl, Wakeup, Whom,
};

use crate::doctor;
use crate::fence::EtcdFence;
use crate::operations::cluster::Cluster;
use crate::options::EtcdOptions;
use crate::wire::error::BACKEND;

/// Age of a hold at which its key is watched, which costs a read: most holds are over by then, and cost the server no
/// watch.
const WATCHED_AFTER: Duration = Duration::from_millis(100);

/// Locks in one etcd cluster.
///
/// Clones share one connection, one stream of watches and one session for each TTL. The documentation of the crate
/// lists the guarantees.
#[derive(Clone)]
pub struct EtcdBackend {
    cluster: Cluster,
}

impl EtcdBackend {
    /// Connects to the cluster at `url`, and checks that a member answers. [`EtcdOptions::new`] has the form of the
    /// URL.
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
            Renewals::Batched,
            TokenDurability::Store,
            Duration::from_secs(1),
            "while most members are down nobody gets a lock and holders lose theirs at their \
             deadlines; a change of leader keeps the holds of the dead for longer, and before 3.4.38, \
             3.5.23 and 3.6.5 may end those of the living: two may believe until the first is told; \
             restoring a backup brings back old locks, and, where the cluster keeps its id, old tokens \
             until its floor is raised; clients that saw newer ones refuse it",
        )
        .with_kinds(Kinds::Permits)
    }

    async fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        self.cluster.attempt(claim, waiter).await
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        self.cluster.extend(renewals).await
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.cluster.release(name, owner).await
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        // The renewals show the fate of an unknown hold.
        let key = self.cluster.claims.key(lease.owner())?;
        let (watches, claims) = (self.cluster.watches.clone(), self.cluster.claims.clone());
        let (owner, revision) = (lease.owner(), self.cluster.floors.revision(lease.token())?);
        Some(Box::pin(async move {
            tokio::time::sleep(WATCHED_AFTER).await;
            watches.gone(key, revision).await;
            claims.lost(owner, revision);
            LostReason::Evicted
        }))
    }

    async fn close(&self) -> Result<(), BackendError> {
        self.cluster.keeper.close().await
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        let withdrawn = owners.iter().map(|owner| self.cluster.withdraw(name, *owner));
        try_join_all(withdrawn).await.map(drop)
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    fn run_records(&self) -> Option<&dyn RecordsRuns> {
        Some(self)
    }

    fn several(&self) -> Option<&dyn AcquiresSeveral> {
        Some(self)
    }

    fn token_ranges(&self) -> Option<&dyn ReservesTokens> {
        Some(self)
    }
}

#[async_trait]
impl ReservesTokens for EtcdBackend {
    /// A claim has its tokens from the start, so the cluster is not asked. A hold that yields is released.
    async fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError> {
        match self.cluster.floors.following(hold.token, hold.tokens) {
            Some(tokens) if !hold.yields => Ok(Reserved::Tokens(tokens)),
            _ => self.release(&hold.name, hold.owner).await.map(Reserved::Ended),
        }
    }
}

#[async_trait]
impl AcquiresSeveral for EtcdBackend {
    async fn acquire_while_free(&self, claims: &[Claim]) -> Result<Vec<Grant>, BackendError> {
        self.cluster.take_while_free(claims).await
    }
}

#[async_trait]
impl RecordsRuns for EtcdBackend {
    async fn release_after(
        &self,
        name: &LockName,
        owner: OwnerId,
        delay: Ttl,
    ) -> Result<Release, BackendError> {
        self.cluster.release_after(name, owner, delay).await
    }

    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        self.cluster.record(record).await
    }

    async fn recorded(
        &self,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<Option<FencingToken>, BackendError> {
        self.cluster.recorded(name, occurrence).await
    }

    async fn runs(&self, name: &LockName) -> Result<Vec<RecordedRun>, BackendError> {
        self.cluster.runs(name).await
    }

    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Result<bool, BackendError> {
        self.cluster.forget(name, occurrence).await
    }
}

#[async_trait]
impl LockAdmin for EtcdBackend {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        self.cluster.inspect(name).await
    }

    fn changes(&self, name: &LockName) -> Option<Changes> {
        Some(self.cluster.watches.changes(&self.cluster.root.claims(name)))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        self.cluster.list_held(prefix, limit).await
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        self.cluster.evict(name, whom).await
    }

    async fn doctor(&self, _prefix: &str) -> Result<Vec<Finding>, BackendError> {
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
