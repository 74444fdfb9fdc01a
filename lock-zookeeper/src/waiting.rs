//! Wakes waiters: each watches the node before its own alone.
//!
//! ```text
//!   holder ◀── first ◀── second ◀── third
//!              watches   watches    watches the one before it
//! ```
//!
//! A waiter whose node is the first writes into it that it holds, and does from then on. The first of a queue that has
//! not done so for a while is deleted by the one behind it: its client has died, or is cut off. Nobody believes in a hold
//! that is not written, so that this is never too early, and costs a slow client its place at most.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lock_core::backend::{Attempt, Claim, FALLBACK_POLL, Grant, WaiterHandle};
use lock_core::{BackendError, Clock, Moment, SystemClock};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zookeeper_client::{Error, WatchedEvent};

use crate::attempt::Ask;
use crate::claims::Node;
use crate::queue::{Entry, Queue};
use crate::sessions::Session;
use crate::store::{Found, Store};

/// The first of a queue is deleted if it was not written that it holds within this span: within the 3 s that a dead waiter
/// may cost (C28), with a look of the waiter behind it.
const UNCLAIMED_LASTS: Duration = Duration::from_secs(2);

/// A waiter's turn.
struct Turn {
    claim: Claim,
    session: Arc<Session>,
    node: Node,
    before: Option<Before>,
}

/// The node before our own, which is watched.
struct Before {
    child: String,
    changed: Pin<Box<dyn Future<Output = WatchedEvent> + Send>>,
    /// Since when it is the first, and does not hold, as far as we saw.
    unclaimed: Option<Moment>,
}

enum Look {
    Waits,
    Granted(Grant),
    /// Our node is gone.
    Lost,
}

impl Store {
    /// Starts a task that wakes the waiter when its turn has come. It ends when the waiter has gone.
    pub(crate) fn wake_in_turn(
        self: &Arc<Self>,
        claim: &Claim,
        session: &Arc<Session>,
        node: &Node,
        waiter: &WaiterHandle,
    ) -> JoinHandle<()> {
        let (claim, session, node) = (claim.clone(), session.clone(), node.clone());
        let turn = Turn { claim, session, node, before: None };
        tokio::spawn(turn.comes(Arc::downgrade(self), waiter.clone()))
    }
}

impl Turn {
    async fn comes(mut self, store: Weak<Store>, waiter: WaiterHandle) {
        while !waiter.is_closed() {
            let Some(store) = store.upgrade() else { return };
            match self.look(&store).await {
                Ok(Look::Waits) => store.claims.seen(self.claim.owner),
                Ok(Look::Granted(grant)) => return waiter.granted(grant),
                Ok(Look::Lost) | Err(_) => return waiter.try_again(),
            }
            drop(store);
            if let Some(before) = &mut self.before
                && timeout(FALLBACK_POLL, &mut before.changed).await.is_ok()
            {
                self.before = None;
            }
        }
    }

    /// Looks who is left before us, and watches the nearest.
    async fn look(&mut self, store: &Arc<Store>) -> Result<Look, BackendError> {
        let lock = store.root.lock(&self.claim.name);
        loop {
            let asked = SystemClock.now();
            let queue = store.queue(&self.session, &lock).await?;
            let place = queue.entries().iter().position(|e| self.node.path.ends_with(&e.child));
            match place {
                None => return Ok(Look::Lost),
                Some(0) => return self.claim(store, lock, asked).await,
                Some(place) => {
                    if self.watches(store, &lock, &queue, place).await? {
                        return Ok(Look::Waits);
                    }
                }
            }
        }
    }

    async fn claim(
        &mut self,
        store: &Arc<Store>,
        lock: String,
        asked: Moment,
    ) -> Result<Look, BackendError> {
        let ask = Ask { store, claim: &self.claim, session: self.session.clone(), lock, asked };
        match ask.claim(self.node.clone()).await? {
            Attempt::Granted(grant) => Ok(Look::Granted(grant)),
            Attempt::Busy(_) => Ok(Look::Lost),
        }
    }

    /// Watches the node before our own; false if it is gone, so that we must look again.
    async fn watches(
        &mut self,
        store: &Arc<Store>,
        lock: &str,
        queue: &Queue,
        place: usize,
    ) -> Result<bool, BackendError> {
        let Some(Entry { child, .. }) = queue.entries().get(place - 1) else { return Ok(false) };
        let (path, is_first) = (format!("{lock}/{child}"), place == 1);
        let known = self.before.take().filter(|before| before.child == *child);
        let (mut before, found) = match known {
            Some(before) if !is_first => {
                self.before = Some(before);
                return Ok(true);
            }
            Some(before) => (before, store.find(&self.session, &path).await?),
            None => match self.session.client().get_and_watch_data(&path).await {
                Ok((data, stat, watcher)) => {
                    let changed = Box::pin(watcher.changed());
                    let before = Before { child: child.clone(), changed, unclaimed: None };
                    (before, Some(Found::new((data, stat))))
                }
                Err(Error::NoNode) => return Ok(false),
                Err(error) => return Err(self.session.failed(error)),
            },
        };
        let Some(found) = found else { return Ok(false) };
        let is_unclaimed = is_first && found.waits();
        let since = is_unclaimed.then(|| before.unclaimed.unwrap_or_else(|| SystemClock.now()));
        before.unclaimed = since;
        self.before = Some(before);
        if since.is_some_and(|since| SystemClock.now().since(since) >= UNCLAIMED_LASTS) {
            self.overtake(&path, found.stat.version).await;
            return Ok(false);
        }
        Ok(true)
    }

    /// Deletes the node of a waiter that does not take its turn, unless it was written since. An error is seen by the look
    /// that follows.
    async fn overtake(&mut self, path: &str, version: i32) {
        let _ = self.session.client().delete(path, Some(version)).await;
    }
}
