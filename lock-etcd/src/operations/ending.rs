//! Ends claims: their keys are deleted.

use futures_util::future::join_all;
use lock_core::backend::{Release, evicted};
use lock_core::{BackendError, Holder, LockName, OwnerId, Whom};

use crate::operations::backend::EtcdBackend;
use crate::protocol::floor::last_of_claim;
use crate::protocol::requests;
use crate::protocol::view::deleted;
use crate::wire::error::overtaken;

impl EtcdBackend {
    pub(crate) async fn end(
        &self,
        name: &LockName,
        owner: OwnerId,
    ) -> Result<Release, BackendError> {
        self.waiters.forget(owner);
        let range = self.root.claims(name);
        let released = match self.claims.held(owner, &range) {
            Some((key, revision)) => {
                let release = || requests::release(&key, revision);
                self.server.write_together(&range, release).await?.succeeded
            }
            None => self.delete_found(name, owner).await?,
        };
        self.claims.forget(owner, &range);
        Ok(if released { Release::Released } else { Release::NotHeld })
    }

    /// Deletes the key of a claim that another client has made; returns true if it existed. That client may reuse the
    /// key, so only this claim is deleted (C14).
    async fn delete_found(&self, name: &LockName, owner: OwnerId) -> Result<bool, BackendError> {
        let Some(claim) = Box::pin(self.find(name, owner)).await? else { return Ok(false) };
        let answer = self.server.txn(requests::delete(&claim)).await?;
        Ok(deleted(&answer)?.is_some())
    }

    pub(crate) async fn withdraw_one(
        &self,
        name: &LockName,
        owner: OwnerId,
    ) -> Result<(), BackendError> {
        self.waiters.forget(owner);
        let lease = self.marks.lease(&self.server).await?;
        let range = self.root.claims(name);
        let own = self.claims.ends(owner, &range);
        let key = own.as_ref().map(|asked| &*asked.key);
        let withdraw = requests::withdraw(key, &self.root, owner, lease.id());
        let withdrawn = self.server.txn(withdraw).await;
        if withdrawn.is_err() {
            // The lease may be gone.
            let _ = lease.keep_alive().await;
        }
        let Some(asked) = own else {
            withdrawn?;
            // C19: once the mark exists, no request of the claim has an effect. An earlier request may have made a
            // key that this client does not know.
            self.delete_found(name, owner).await?;
            self.claims.forget(owner, &range);
            return Ok(());
        };
        self.claims.answered(&asked, &withdrawn);
        withdrawn?;
        self.claims.forget(owner, &range);
        Ok(())
    }

    /// Deletes the keys of holders. A lease stays if it may carry other keys.
    pub(crate) async fn evict_holders(
        &self,
        name: &LockName,
        whom: &Whom,
    ) -> Result<Vec<Holder>, BackendError> {
        let holders = self.claims_on(name).await?.holders;
        let left = self.left_of_all(&holders).await?;
        let holders = holders.iter().map(|claim| Ok((claim, left.holder(claim)?)));
        let mut wanted = holders.collect::<Result<Vec<_>, BackendError>>()?;
        wanted.retain(|(_, holder)| whom.includes(holder));
        let deletions = wanted.iter().map(|(claim, _)| self.server.txn(requests::delete(claim)));
        let mut ended = Vec::new();
        for ((_, holder), answer) in wanted.iter().zip(join_all(deletions).await) {
            let gone = answer.and_then(|answer| deleted(&answer));
            let last = holder.token.map(last_of_claim);
            ended.push(gone.map(|gone| gone.map(|_| holder.clone().reserved(last))));
        }
        let ended = evicted(ended)?;
        if ended.is_empty() && !wanted.is_empty() {
            return Err(overtaken("the holder released meanwhile"));
        }
        Ok(ended)
    }
}
