//! How claims end: their keys are deleted, and their leases given back or revoked.

use etcd_client::{Client, DeleteOptions};
use futures_util::future::try_join_all;
use lock_core::backend::Release;
use lock_core::{BackendError, Holder, LockName, OwnerId};
use tokio::time::timeout;

use crate::claims::EndedClaim;
use crate::cluster::Cluster;
use crate::error::overtaken;
use crate::lease_id::LeaseId;
use crate::requests;
use crate::server::SUSPECT_AFTER;

impl Cluster {
    pub(crate) async fn release(
        &self,
        name: &LockName,
        owner: OwnerId,
    ) -> Result<Release, BackendError> {
        self.waiters.forget(owner);
        let deleted = self.delete(name, owner).await?;
        self.settle(self.claims.released(owner), deleted);
        Ok(if deleted.is_some() { Release::Released } else { Release::NotHeld })
    }

    pub(crate) async fn withdraw(
        &self,
        name: &LockName,
        owner: OwnerId,
    ) -> Result<(), BackendError> {
        self.waiters.forget(owner);
        let mut ended = self.claims.withdraw(owner);
        if ended.unresolved {
            // C19: first, so that no late request can write the key after it was deleted.
            try_join_all(ended.leases.drain(..).map(|lease| self.leases.revoke(lease))).await?;
        }
        let deleted = self.delete(name, owner).await?;
        self.claims.withdrawn(owner);
        self.settle(ended, deleted);
        Ok(())
    }

    pub(crate) async fn evict(&self, name: &LockName) -> Result<Option<Holder>, BackendError> {
        let (Some(first), _) = self.first(name).await? else { return Ok(None) };
        let holder = self.holder(&first).await;
        let deleted = requests::deleted(&self.server.txn(requests::delete(&first)).await?)?;
        let deleted = deleted.ok_or_else(|| overtaken("the holder went by itself"))?;
        // The lease of a foreign key may have other keys.
        if let (Some(_), Some(lease)) = (self.owner(&deleted), deleted.lease) {
            self.end_lease(lease).await;
        }
        Ok(Some(holder))
    }

    /// A claim is over, and its key was `deleted`, or was not there. Its leases serve other claims only if
    /// nobody else may use them. A late request might, or a client that ended the claim before us.
    fn settle(&self, ended: EndedClaim, deleted: Option<Option<LeaseId>>) {
        let on_key = deleted.flatten().filter(|lease| !ended.leases.contains(lease));
        let leases = ended.leases.into_iter().chain(on_key);
        if deleted.is_some() && !ended.unresolved {
            self.leases.give_back(leases);
        } else {
            self.leases.revoke_later(leases);
        }
    }

    /// Revokes a lease whose key is deleted. It does so at once, since a process that evicts may end after
    /// that, or in the background if it takes long.
    async fn end_lease(&self, lease: LeaseId) {
        let revoked = timeout(SUSPECT_AFTER, self.leases.revoke(lease)).await;
        if !matches!(revoked, Ok(Ok(()))) {
            self.leases.revoke_later([lease]);
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
        let deleted = self.server.request(delete).await?;
        Ok(deleted.prev_kvs().first().map(|pair| LeaseId::on_key(pair.lease())))
    }
}
