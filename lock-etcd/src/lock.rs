//! The trait's operations.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{Client, DeleteOptions};
use futures_util::future::{join_all, try_join_all};
use lock_core::{
    Attempt, BackendError, Capabilities, Claim, DistributedLock, Extension, Finding, Holder, Lease,
    LockError, LockName, LockState, LossWatch, LostReason, Order, OwnerId, Release, Renewal,
    TokenDurability, Waker, Wakeup,
};

use crate::claims::Claims;
use crate::error::{BACKEND, overtaken};
use crate::fence::EtcdFence;
use crate::keys::Root;
use crate::lease_id::LeaseId;
use crate::leases::Leases;
use crate::options::{EtcdOptions, Target};
use crate::renewal::{BATCH, Hold};
use crate::requests::{self, Entry};
use crate::server::Server;
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

    /// How long the server keeps a claim, at the most, where it tells.
    pub(crate) async fn left(&self, entry: &Entry) -> Option<Duration> {
        let left = self.leases.left(entry.lease?).await.ok()?;
        Some(left.unwrap_or(Duration::ZERO))
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
            Order::Fair,
            Wakeup::Push,
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
        waker: Option<&Waker>,
    ) -> Result<Attempt, BackendError> {
        if let (Some(waker), Some(place)) = (waker, self.claims.place(claim.owner)) {
            // Boxed, since it is large, and a first attempt has no need of it.
            if let Some(attempt) = Box::pin(self.look_again(claim, place, waker)).await? {
                return Ok(attempt);
            }
            self.claims.lost(claim.owner, |lease| lease == place.lease);
            self.leases.condemn(place.lease);
        }
        self.enter(claim, waker).await
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
        let Some(lease) = self.delete(name, owner).await? else { return Ok(Release::NotHeld) };
        let in_doubt = self.claims.is_in_doubt(owner);
        self.give_back_all(self.claims.settled(owner, lease));
        if let Some(lease) = lease {
            // A late request could write the key again with it.
            if in_doubt { self.leases.condemn(lease) } else { self.leases.give_back(lease) }
        }
        Ok(Release::Released)
    }

    async fn withdraw(&self, claim: &Claim) -> Result<(), BackendError> {
        self.waiters.forget(claim.owner);
        let in_doubt = self.claims.is_in_doubt(claim.owner);
        let leases = self.claims.withdraw(claim.owner);
        if in_doubt {
            // First, so that no late request can write the key after it was deleted.
            try_join_all(leases.all().map(|lease| self.leases.revoke(lease))).await?;
        }
        let on_key = self.delete(&claim.name, claim.owner).await?.flatten();
        self.claims.withdrawn(claim.owner);
        if let Some(lease) = on_key.filter(|lease| in_doubt || leases.all().all(|id| id != *lease))
        {
            self.leases.condemn(lease);
        }
        if !in_doubt {
            self.give_back_all(leases.all());
        }
        Ok(())
    }

    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let range = self.root.claims(name);
        let get =
            |mut client: Client| async move { client.get(range, Some(requests::first())).await };
        let found = self.server.ask(get).await?;
        let waiters = u64::try_from(found.count() - 1).unwrap_or(0);
        let first = found.kvs().first().map(Entry::of).transpose()?;
        let holder = match first {
            Some(entry) => Some(self.holder(&entry).await?),
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
        let holder = self.holder(&entry).await?;
        let deleted =
            self.server.txn(requests::delete(&entry.key, entry.token.get() as i64)).await?;
        if !deleted.succeeded() {
            return Err(overtaken("the holder went by itself"));
        }
        entry.lease.into_iter().for_each(|lease| self.leases.condemn(lease));
        Ok(Some(holder))
    }

    async fn doctor(&self) -> Result<Vec<Finding>, BackendError> {
        self.examine().await
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

impl fmt::Debug for EtcdLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdLock").field("prefix", &self.root.prefix()).finish_non_exhaustive()
    }
}
