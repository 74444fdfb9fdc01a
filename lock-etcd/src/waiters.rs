//! The waiting claims of this client, and the claims that they wait for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::backend::{Grant, ServerTime, WaiterHandle};
use lock_core::{FencingToken, OwnerId};
use tokio::task::JoinHandle;

use crate::claims::QueueEntry;
use crate::requests::{ClaimKeys, View, look};
use crate::server::Server;
use crate::watches::Watches;

/// The waiting claims of one client, each with a task that watches the claim before it.
pub(crate) struct Waiters {
    server: Arc<Server>,
    watches: Arc<Watches>,
    waiting: Mutex<HashMap<OwnerId, Waiting>>,
}

struct Waiting {
    token: FencingToken,
    renewed_at: Arc<Mutex<ServerTime>>,
    task: JoinHandle<()>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a waiting claim's task knows.
struct Turn {
    keys: ClaimKeys,
    queue_entry: QueueEntry,
    waiter: WaiterHandle,
    /// When the lease of the place was last renewed.
    renewed_at: Arc<Mutex<ServerTime>>,
}

impl Waiters {
    pub(crate) fn new(server: Arc<Server>, watches: Arc<Watches>) -> Self {
        Self { server, watches, waiting: Mutex::default() }
    }

    /// Wakes the claim when its turn has come. It has the place, the lease of the place was renewed
    /// at `renewed_at`, and `predecessor` is before it.
    pub(crate) fn wait(
        &self,
        owner: OwnerId,
        keys: ClaimKeys,
        queue_entry: QueueEntry,
        waiter: &WaiterHandle,
        predecessor: Vec<u8>,
        renewed_at: ServerTime,
    ) {
        let mut waiting = self.waiting();
        if let Some(known) = waiting.get(&owner)
            && known.token == queue_entry.token
            && !known.task.is_finished()
        {
            *known.renewed_at.lock().unwrap_or_else(PoisonError::into_inner) = renewed_at;
            return;
        }
        if waiting.len() == waiting.capacity() {
            waiting.retain(|_, waiting| !waiting.task.is_finished());
        }
        let renewed_at = Arc::new(Mutex::new(renewed_at));
        let turn =
            Turn { keys, queue_entry, waiter: waiter.clone(), renewed_at: renewed_at.clone() };
        let task = turn.comes(self.server.clone(), self.watches.clone(), predecessor);
        let task = tokio::spawn(task);
        waiting.insert(owner, Waiting { token: queue_entry.token, renewed_at, task });
    }

    /// Wakes the claim no more.
    pub(crate) fn forget(&self, owner: OwnerId) {
        self.waiting().remove(&owner);
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<OwnerId, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Waits until the claim before ours is gone, and looks again: it may have been another waiter that
    /// left. The look also proves that our own claim is still there.
    async fn comes(self, server: Arc<Server>, watches: Arc<Watches>, mut predecessor: Vec<u8>) {
        loop {
            watches.gone(&predecessor).await;
            let seen = server.txn(look(&self.keys, self.queue_entry.token)).await;
            match seen.and_then(|seen| View::of(&seen)) {
                Ok(view) if self.is_held(&view) => return self.waiter.granted(self.grant()),
                Ok(View { own: Some(_), predecessor: Some(next), .. }) => predecessor = next,
                // Our claim is gone, or the server did not answer: the waiter tries again.
                Ok(_) | Err(_) => return self.waiter.try_again(),
            }
        }
    }

    fn is_held(&self, view: &View) -> bool {
        view.held().is_some_and(|own| own.token == self.queue_entry.token)
    }

    /// The hold counts from the last renewal of the place, not from now.
    fn grant(&self) -> Grant {
        let at = *self.renewed_at.lock().unwrap_or_else(PoisonError::into_inner);
        Grant::new(self.queue_entry.token, self.queue_entry.lease.ttl()).at(at)
    }
}
