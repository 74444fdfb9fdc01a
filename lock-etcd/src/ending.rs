//! How claims end: their keys are deleted.

use std::sync::{Arc, Mutex, PoisonError};

use etcd_client::Client;
use lock_core::backend::{Release, WITHDRAWAL_REMEMBERED};
use lock_core::{BackendError, Clock, Holder, LockName, OwnerId, SystemClock};

use crate::cluster::Cluster;
use crate::error::overtaken;
use crate::requests;
use crate::server::Server;
use crate::session::Session;
use crate::view::deleted;

/// How long the lease for marks of withdrawn claims lasts. It is not renewed: marks are put on it for as long
/// as it lasts for the time that they are to be remembered.
const MARKS_SECONDS: i64 = WITHDRAWAL_REMEMBERED.as_secs() as i64 + 10;

/// The lease on which the marks of withdrawn claims are.
#[derive(Default)]
pub(crate) struct Marks(Mutex<Option<Arc<Session>>>);

impl Marks {
    /// A lease that lasts for as long as a withdrawal is to be remembered (C19).
    async fn lease(&self, server: &Arc<Server>) -> Result<Arc<Session>, BackendError> {
        let session = self.current(server);
        session.last_for(WITHDRAWAL_REMEMBERED).await?;
        Ok(session)
    }

    fn current(&self, server: &Arc<Server>) -> Arc<Session> {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemClock.now();
        let is_worn = |session: &Session| {
            session.is_gone() || session.is_open() && session.left(now) < WITHDRAWAL_REMEMBERED
        };
        current.take_if(|session| is_worn(session));
        current.get_or_insert_with(|| Arc::new(Session::new(server.clone(), MARKS_SECONDS))).clone()
    }
}

impl Cluster {
    pub(crate) async fn release(
        &self,
        name: &LockName,
        owner: OwnerId,
    ) -> Result<Release, BackendError> {
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
    pub(crate) async fn evict(&self, name: &LockName) -> Result<Option<Holder>, BackendError> {
        let (Some(first), _) = self.first(name).await? else { return Ok(None) };
        let holder = self.holder(&first, self.left(first.lease).await);
        let deleted = deleted(&self.server.txn(requests::delete(&first)).await?)?;
        deleted.ok_or_else(|| overtaken("the holder went by itself"))?;
        Ok(Some(holder))
    }
}
