//! The trait's operations.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{Client, DeleteOptions};
use futures_util::future::{join_all, try_join_all};
use lock_core::backend::{Attempt, Claim, Extension, LossWatch, Release, Renewal, WaiterHandle};
use lock_core::{
    BackendError, Capabilities, DistributedLock, Finding, Holder, Lease, LockAdmin, LockError,
    LockName, LockState, LostReason, Order, OwnerId, Renewals, TokenDurability, Wakeup,
};
use tokio::time::timeout;

use crate::claims::{Claims, Estate};
use crate::error::{BACKEND, overtaken};
use crate::fence::EtcdFence;
use crate::keys::Root;
use crate::lease_id::LeaseId;
use crate::leases::Leases;
use crate::options::{EtcdOptions, Target};
use crate::renewal::{BATCH, Hold};
use crate::requests::{self, Entry};
use crate::server::{SUSPECT_AFTER, Server};
use crate::waiters::Waiters;
use crate::watches::Watches;

/// How old a hold is when the watch of its key is opened, which reads the key: most holds are over by
/// then, and cost the server nothing.
const WATCHED_AFTER: Duration = Duration::from_millis(100);

/// Locks in one etcd cluster.
///
/// Clones share one connection, one stream of watches and the leases in stock. See the
/// [crate documentation](crate) for what it guarantees.
#[derive(Clone)]
pub struct EtcdLock {
    pub(crate) server: Arc<Server>,
    pub(crate) root: Root,
    pub(crate) leases: Arc<Leases>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) waiters: Arc<Waiters>,
    watches: Arc<Watches>,
}

impl EtcdLock {
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
        EtcdOptions::new(url).connect().await
    }

    pub(crate) async fn with_target(target: Target) -> Result<Self, LockError> {
        let server = Arc::new(Server::new(target.endpoints, target.options));
        server
            .first_answer(&target.root.starting_with(""))
            .await
            .map_err(|source| LockError::Backend { operation: "connect", name: None, source })?;
        let watches = Arc::new(Watches::new(server.clone()));
        Ok(Self {
            leases: Arc::new(Leases::new(server.clone())),
            waiters: Arc::new(Waiters::new(server.clone(), watches.clone())),
            claims: Arc::default(),
            root: target.root,
            server,
            watches,
        })
    }

    /// The fence of a resource in this cluster.
    pub fn fence(&self, resource: impl AsRef<str>) -> EtcdFence {
        EtcdFence::new(self.server.clone(), self.root.mark(resource.as_ref()))
    }

    /// A claim is over, and its key was deleted, or was not there. Its leases serve others only if
    /// nobody else may use them: neither a late request, nor whoever ended the claim before us.
    fn settle(&self, estate: Estate, deleted: Option<Option<LeaseId>>) {
        let on_key = deleted.flatten().filter(|lease| !estate.leases.contains(lease));
        let leases = estate.leases.into_iter().chain(on_key);
        if deleted.is_some() && !estate.in_doubt {
            self.leases.give_back(leases);
        } else {
            self.leases.condemn(leases);
        }
    }

    /// Revokes a lease whose key is deleted: at once, as a process that evicts may end then; in the
    /// background if that takes long.
    async fn end_lease(&self, lease: LeaseId) {
        let revoked = timeout(SUSPECT_AFTER, self.leases.revoke(lease)).await;
        if !matches!(revoked, Ok(Ok(()))) {
            self.leases.condemn([lease]);
        }
    }

    /// Deletes the key of a claim, and returns the lease that it had, if it was there.
    async fn delete(
        &self,
        name: &LockName,
        owner: OwnerId,
    ) -> Result<Option<Option<LeaseId>>, BackendError> {
        let key = self.root.claim(name, owner);
        let options = Some(DeleteOptions::new().with_prev_key());
        let delete = |mut client: Client| async move { client.delete(key, options).await };
        let deleted = self.server.ask(delete).await?;
        Ok(deleted.prev_kvs().first().map(|pair| LeaseId::on_key(pair.lease())))
    }
}

#[async_trait]
impl DistributedLock for EtcdLock {
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
        if let (Some(waiter), Some(place)) = (waiter, self.claims.place(claim.owner)) {
            // Boxed, since it is large, and a first attempt has no need of it.
            if let Some(attempt) = Box::pin(self.look_again(claim, place, waiter)).await? {
                return Ok(attempt);
            }
            self.leases.condemn(self.claims.lost(claim.owner, place.lease));
        }
        self.enter(claim, waiter).await
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        let holds: Vec<Hold<'_>> = renewals.iter().map(Hold::renewed).collect();
        join_all(holds.chunks(BATCH).map(|batch| self.extend_batch(batch)))
            .await
            .into_iter()
            .flatten()
            .collect()
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.waiters.forget(owner);
        let deleted = self.delete(name, owner).await?;
        self.settle(self.claims.released(owner), deleted);
        Ok(if deleted.is_some() { Release::Released } else { Release::NotHeld })
    }

    async fn withdraw(&self, name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        self.waiters.forget(owner);
        let mut estate = self.claims.withdraw(owner);
        if estate.in_doubt {
            // C19: first, so that no late request can write the key after it was deleted.
            try_join_all(estate.leases.drain(..).map(|lease| self.leases.revoke(lease))).await?;
        }
        let deleted = self.delete(name, owner).await?;
        self.claims.withdrawn(owner);
        self.settle(estate, deleted);
        Ok(())
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        let key = self.root.claim(lease.name(), lease.owner());
        let watches = self.watches.clone();
        Some(Box::pin(async move {
            tokio::time::sleep(WATCHED_AFTER).await;
            watches.gone(key.as_bytes()).await;
            LostReason::Evicted
        }))
    }
}

#[async_trait]
impl LockAdmin for EtcdLock {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let range = self.root.claims(name);
        let get =
            |mut client: Client| async move { client.get(range, Some(requests::first())).await };
        let found = self.server.ask(get).await?;
        let waiters = u64::try_from(found.count() - 1).unwrap_or(0);
        let first = found.kvs().first().map(Entry::of).transpose()?;
        let holder = match first {
            Some(entry) => Some(self.holder(&entry).await),
            None => None,
        };
        Ok(LockState::new(name.clone(), holder, Some(waiters)))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        self.list_held(prefix, limit).await
    }

    async fn evict(&self, name: &LockName) -> Result<Option<Holder>, BackendError> {
        let range = self.root.claims(name);
        let get =
            |mut client: Client| async move { client.get(range, Some(requests::first())).await };
        let found = self.server.ask(get).await?;
        let Some(entry) = found.kvs().first().map(Entry::of).transpose()? else { return Ok(None) };
        let holder = self.holder(&entry).await;
        let deleted = requests::deleted(&self.server.txn(requests::delete(&entry)).await?)?;
        let deleted = deleted.ok_or_else(|| overtaken("the holder went by itself"))?;
        // A lease of somebody else's may have other keys.
        if let (Some(_), Some(lease)) = (self.owner(&deleted), deleted.lease) {
            self.end_lease(lease).await;
        }
        Ok(Some(holder))
    }

    async fn doctor(&self) -> Result<Vec<Finding>, BackendError> {
        self.examine().await
    }
}

impl fmt::Debug for EtcdLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdLock").field("prefix", &self.root.prefix()).finish_non_exhaustive()
    }
}
