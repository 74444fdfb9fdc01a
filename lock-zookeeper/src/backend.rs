//! The operations of the trait.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{
    Attempt, Claim, Extension, LossWatch, Record, Recording, RecordsRuns, Release, Renewal,
    WaiterHandle,
};
use lock_core::{
    BackendError, Capabilities, DistributedLock, Kinds, Lease, LockAdmin, LockError, LockName,
    Occurrence, Order, OwnerId, RecordedRun, Renewals, TokenDurability, Wakeup,
};
use tokio::time::sleep;

use crate::error::BACKEND;
use crate::options::ZooKeeperOptions;
use crate::store::Store;

/// Age at which a hold's node is watched: most holds are over by then, and cost the server nothing.
const WATCHED_AFTER: Duration = Duration::from_millis(100);

/// Pause before a failed watch is set again.
const WATCH_AGAIN: Duration = Duration::from_secs(1);

/// Locks in one ZooKeeper ensemble.
///
/// Clones share their sessions, one for each step of TTLs and half megabyte of paths, each with a connection. The documentation of the crate has the
/// guarantees.
#[derive(Clone)]
pub struct ZooKeeperBackend {
    pub(crate) store: Arc<Store>,
}

impl ZooKeeperBackend {
    /// Connects to the ensemble at `url`, and waits for the answer of a member. [`ZooKeeperOptions::new`]
    /// describes the URL.
    ///
    /// # Errors
    /// - [`LockError::Config`] if the URL or the certificates cannot be used. The error does not repeat the URL, which
    ///   may hold a password.
    /// - [`LockError::Backend`] if no member can be reached, or the client is refused.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        ZooKeeperOptions::new(url).connect().await
    }
}

impl ZooKeeperOptions {
    /// Connects, and waits for the answer of a member.
    ///
    /// # Errors
    /// - [`LockError::Config`] if the URL or the certificates cannot be used. The error does not repeat the URL, which
    ///   may hold a password.
    /// - [`LockError::Backend`] if no member can be reached, or the client is refused.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn connect(self) -> Result<ZooKeeperBackend, LockError> {
        let target = self.target()?;
        if let Some(certificates) = &target.certificates {
            certificates.read().await?;
        }
        Ok(ZooKeeperBackend { store: Store::connect(target).await? })
    }
}

#[async_trait]
impl DistributedLock for ZooKeeperBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(
            BACKEND,
            Order::Fifo,
            Wakeup::Push,
            Renewals::Batched,
            TokenDurability::Store,
            Duration::from_millis(1),
            "while most members are down nobody gets a lock and holders lose theirs at their deadlines; TTLs are granted \
             up to three quarters of the longest session of the server, 30 s as it is set by default, and a hold whose \
             client died lasts for the session: four thirds of its TTL, rounded up to a step, or the shortest session \
             of the server, and a tick; restoring a backup brings back old tokens until the floor is raised",
        )
        .with_kinds(Kinds::Permits)
    }

    async fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        self.store.acquire(claim, waiter).await
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        self.store.extend(renewals).await
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.store.release(name, owner).await
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        self.store.withdraw(name, owners).await
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        let owner = lease.owner();
        self.store.claims.held_node(owner)?;
        let store = Arc::downgrade(&self.store);
        Some(Box::pin(async move {
            sleep(WATCHED_AFTER).await;
            while let Some(gone) = next_look(&store, owner).await {
                gone.await;
            }
        }))
    }

    async fn close(&self) -> Result<(), BackendError> {
        let marks = self.store.marks.lock().len();
        // C19: the common session carries the marks of withdrawn claims.
        self.store.sessions.end_unused(marks == 0).await;
        Ok(())
    }

    fn run_records(&self) -> Option<&dyn RecordsRuns> {
        Some(self)
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }
}

#[async_trait]
impl RecordsRuns for ZooKeeperBackend {
    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        self.store.record(record).await
    }

    async fn runs(
        &self,
        name: &LockName,
        of: Option<&Occurrence>,
    ) -> Result<Vec<RecordedRun>, BackendError> {
        self.store.runs(name, of).await
    }

    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Result<bool, BackendError> {
        self.store.forget(name, occurrence).await
    }
}

/// Looks at a hold's node: returns the event to wait for before the next look, or `None` if the node is gone.
async fn next_look(
    store: &Weak<Store>,
    owner: OwnerId,
) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
    let later = || Box::pin(sleep(WATCH_AGAIN));
    // The state cannot be read now: the deadline decides.
    let Some(store) = store.upgrade() else { return Some(later()) };
    // No node is known while the hold moves to another session, which deletes the former node.
    let Some(node) = store.claims.held_node(owner) else { return Some(later()) };
    let Ok(session) = store.sessions.common().await else { return Some(later()) };
    let client = session.client();
    let sync = client.sync(&node.path);
    let look = client.check_and_watch_stat(&node.path);
    let (sync, look) = tokio::join!(sync, look);
    if let Err(error) = sync {
        session.failed(error);
        return Some(later());
    }
    match look {
        Ok((Some(_), watcher)) => Some(Box::pin(async move {
            watcher.changed().await;
        })),
        // The hold may have moved to another session.
        Ok((None, _)) if store.claims.held_node(owner).as_ref() == Some(&node) => None,
        Ok((None, _)) => Some(later()),
        Err(error) => {
            session.failed(error);
            Some(later())
        }
    }
}

impl fmt::Debug for ZooKeeperBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperBackend")
            .field("root", &self.store.root.as_str())
            .finish_non_exhaustive()
    }
}
