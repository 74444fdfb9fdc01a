//! The backend: this client's resources in a cluster, and the main trait. Other files have the operations.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use lock_core::backend::{
    Attempt, Claim, Extension, LossWatch, RecordsRuns, Release, Renewal, Reservation, Reserved,
    ReservesTokens, Sights, WaiterHandle,
};
use lock_core::{
    BackendError, Capabilities, DistributedLock, Kinds, Lease, LockAdmin, LockError, LockName,
    Order, OwnerId, Renewals, TokenDurability, Wakeup,
};

use crate::fence::EtcdFence;
use crate::layout::keys::Root;
use crate::layout::stored_claim::StoredClaim;
use crate::operations::keeper::Keeper;
use crate::options::{EtcdOptions, Target};
use crate::protocol::floor::Floors;
use crate::sessions::claims::Claims;
use crate::sessions::marks::Marks;
use crate::waiting::waiters::Waiters;
use crate::waiting::watches::Watches;
use crate::wire::error::BACKEND;
use crate::wire::server::Server;

/// Age of a hold at which its key is watched, which costs a read: most holds are over by then, and cost the server no
/// watch.
const WATCHED_AFTER: Duration = Duration::from_millis(100);

/// Locks in one etcd cluster.
///
/// Clones share one connection, one stream of watches and the sessions of each TTL. The documentation of the crate
/// lists the guarantees.
#[derive(Clone)]
pub struct EtcdBackend {
    pub(crate) server: Arc<Server>,
    pub(crate) root: Root,
    pub(crate) floors: Arc<Floors>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) marks: Arc<Marks>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) watches: Arc<Watches>,
    /// Fronts that tries saw unclaimed.
    pub(crate) sights: Arc<Sights<Vec<StoredClaim>>>,
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
        EtcdOptions::new(url).connect().await
    }

    /// Connects when it is first needed.
    pub(crate) fn new(target: Target) -> Self {
        let root = target.root.clone();
        let server = Arc::new(Server::new(target, root.floor()));
        let watches = Arc::new(Watches::new(server.clone()));
        let claims = Arc::new(Claims::new(server.clone(), root.clone()));
        let waiters = Arc::new(Waiters::new(server.clone(), claims.clone(), watches.clone()));
        Self {
            keeper: Arc::new(Keeper::new(server.clone(), claims.clone(), waiters.clone())),
            waiters,
            floors: Arc::new(Floors::new(server.clone(), &root)),
            marks: Arc::default(),
            sights: Arc::default(),
            root,
            server,
            claims,
            watches,
        }
    }

    /// The fence of a resource in this cluster.
    pub fn fence(&self, resource: impl AsRef<str>) -> EtcdFence {
        EtcdFence::new(self.server.clone(), self.root.mark(resource.as_ref()))
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
        self.attempt(claim, waiter).await
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        self.renew(renewals).await
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.end(name, owner).await
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        // The renewals show the fate of an unknown hold.
        let key = self.claims.key(lease.owner())?;
        let (watches, claims) = (self.watches.clone(), self.claims.clone());
        let (owner, revision) = (lease.owner(), self.floors.revision(lease.token())?);
        Some(Box::pin(async move {
            tokio::time::sleep(WATCHED_AFTER).await;
            watches.gone(key, revision).await;
            claims.lost(owner, revision);
        }))
    }

    async fn close(&self) -> Result<(), BackendError> {
        self.keeper.close().await
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        let withdrawn = owners.iter().map(|owner| self.withdraw_one(name, *owner));
        try_join_all(withdrawn).await.map(drop)
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    fn run_records(&self) -> Option<&dyn RecordsRuns> {
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
        match self.floors.following(hold.token, hold.tokens) {
            Some(tokens) if !hold.yields => Ok(Reserved::Tokens(tokens)),
            _ => self.release(&hold.name, hold.owner).await.map(Reserved::Ended),
        }
    }
}

impl fmt::Debug for EtcdBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdBackend").field("root", &self.root.as_str()).finish_non_exhaustive()
    }
}
