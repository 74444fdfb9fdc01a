//! The task that ends unrenewed claims, old marks and unused sessions.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::BackendError;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::store::Store;

/// Interval of the keeper's looks, and longest delay of a claim that expires.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Longest time of one look.
const LOOK_LIMIT: Duration = Duration::from_secs(5);

impl Store {
    /// Starts the task, also if it or its runtime has ended.
    ///
    /// Safety does not depend on it: no hold is believed in for longer than its TTL.
    pub(crate) fn ensure_kept(self: &Arc<Self>) {
        let mut keeper = self.keeper.lock();
        if keeper.as_ref().is_none_or(JoinHandle::is_finished)
            && let Ok(runtime) = Handle::try_current()
        {
            *keeper = Some(runtime.spawn(keep(Arc::downgrade(self))));
        }
    }

    fn has_work(&self) -> bool {
        let has_marks = !self.marks.lock().is_empty();
        has_marks || !self.claims.is_empty() || self.sessions.has_idle()
    }

    async fn look_after(&self) -> Result<(), BackendError> {
        self.sessions.revive_all().await;
        let expired = self.claims.expired();
        if !expired.is_empty() {
            let session = self.sessions.common().await?;
            let ended = expired.iter().map(async |claim| {
                let deleted = match &claim.node {
                    Some(node) => self.delete(&session, &node.path).await.map(drop),
                    None => self.delete_on_its_sessions(claim).await,
                };
                // After a failure the next look tries again.
                if deleted.is_ok() {
                    self.claims.ended(claim.owner);
                }
            });
            join_all(ended).await;
        }
        self.delete_old_marks(&*self.sessions.common().await?).await;
        self.sessions.end_idle().await;
        Ok(())
    }
}

async fn keep(store: Weak<Store>) {
    loop {
        sleep(LOOK_EVERY).await;
        let Some(store) = store.upgrade() else { return };
        if !store.has_work() {
            return;
        }
        // After a failure the next look tries again.
        let _ = timeout(LOOK_LIMIT, store.look_after()).await;
    }
}
