//! How claims end: their keys are deleted.

use futures_util::future::join_all;
use lock_core::backend::Release;
use lock_core::{BackendError, Holder, LockName, OwnerId, Whom};

use crate::cluster::Cluster;
use crate::error::overtaken;
use crate::requests;
use crate::together::Write;
use crate::view::{deleted, released};

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
        let (range, key) = (self.root.claims(name), self.root.claim(name, owner));
        let deletion = || Write::Deletion(key.clone());
        let released = released(&self.server.write_together(&range, deletion).await?)?;
        self.claims.forget(owner);
        Ok(if released { Release::Released } else { Release::NotHeld })
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

    /// Deletes the keys of holders. Their leases are left alone: they may carry other keys.
    pub(crate) async fn evict(
        &self,
        name: &LockName,
        whom: &Whom,
    ) -> Result<Vec<Holder>, BackendError> {
        let holders = self.claims_on(name).await?.holders;
        let left = self.left_of_all(&holders).await;
        let holders = holders.iter().map(|claim| (claim, self.holder(claim, &left)));
        let wanted: Vec<_> = holders.filter(|(_, holder)| whom.includes(holder)).collect();
        let deletions = wanted.iter().map(|(claim, _)| self.server.txn(requests::delete(claim)));
        let mut evicted = Vec::new();
        for ((_, holder), answer) in wanted.iter().zip(join_all(deletions).await) {
            if deleted(&answer?)?.is_some() {
                evicted.push(holder.clone());
            }
        }
        if evicted.is_empty() && !wanted.is_empty() {
            return Err(overtaken("the holder went by itself"));
        }
        Ok(evicted)
    }
}
