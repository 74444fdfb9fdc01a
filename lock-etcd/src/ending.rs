//! How claims end: their keys are deleted.

use etcd_client::Client;
use lock_core::backend::Release;
use lock_core::{BackendError, Holder, LockName, OwnerId, Whom};

use crate::cluster::Cluster;
use crate::error::overtaken;
use crate::requests;
use crate::view::deleted;

impl Cluster {
    pub(crate) async fn release(
        &self,
        name: &LockName,
        owner: OwnerId,
    ) -> Result<Release, BackendError> {
        if self.claims.is_retired(owner) {
            return Ok(Release::NotHeld);
        }
        self.waiters.forget(owner);
        let key = self.root.claim(name, owner);
        let delete = |mut client: Client| async move { client.delete(key, None).await };
        let deleted = self.server.on_store(delete).await?.deleted();
        self.claims.forget(owner);
        Ok(if deleted > 0 { Release::Released } else { Release::NotHeld })
    }

    pub(crate) async fn withdraw(
        &self,
        name: &LockName,
        owner: OwnerId,
    ) -> Result<(), BackendError> {
        self.waiters.forget(owner);
        let lease = self.marks.lease(&self.server).await?;
        let key = self.root.claim(name, owner);
        let withdrawn =
            self.server.txn(requests::withdraw(&key, &self.root, owner, lease.id())).await;
        if withdrawn.is_err() {
            // It may be that the lease is gone.
            let _ = lease.keep_alive().await;
        }
        withdrawn?;
        self.claims.forget(owner);
        Ok(())
    }

    /// Deletes the holder's key. Its lease is left alone: it may carry other keys.
    pub(crate) async fn evict(
        &self,
        name: &LockName,
        whom: &Whom,
    ) -> Result<Vec<Holder>, BackendError> {
        let (Some(first), _) = self.first(name).await? else { return Ok(Vec::new()) };
        let holder = self.holder(&first, self.left(first.lease).await);
        if !whom.includes(&holder) {
            return Ok(Vec::new());
        }
        let deleted = deleted(&self.server.txn(requests::delete(&first)).await?)?;
        deleted.ok_or_else(|| overtaken("the holder went by itself"))?;
        Ok(vec![holder])
    }
}
