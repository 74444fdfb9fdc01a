//! Wakes waiters: an exclusive waiter watches only the node before its own.
//!
//! ```text
//!   holder ◀── first ◀── second ◀── third
//!              watches   watches    watches the one before it
//! ```
//!
//! A waiter whose turn has come writes into its node that it holds, which makes it a holder. If it does not do so
//! for a while, its client has died or is cut off, and a waiter behind it deletes the node. Nobody believes in a
//! hold that is not written, so this is never too early; it costs a slow client only its place.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lock_core::backend::{Attempt, Claim, FALLBACK_POLL, Grant, WaiterHandle};
use lock_core::{BackendError, Clock, Kind, Moment, SystemClock};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zookeeper_client::{Error, WatchedEvent};

use crate::attempt::Ask;
use crate::claims::Node;
use crate::queue::{Entry, Queue};
use crate::sessions::Session;
use crate::standing::Standing;
use crate::store::{Found, Store};

/// A waiter whose turn has come is deleted if it has not written within this span that it holds. With a look of
/// the waiter behind it, that is within the 3 s that a dead waiter may cost (C28).
const UNCLAIMED_LASTS: Duration = Duration::from_secs(2);

/// A waiter's turn.
struct Turn {
    claim: Claim,
    session: Arc<Session>,
    node: Node,
    before: Option<Before>,
    /// The queue as it was read when the claim took its place, until the first look.
    queue: Option<Queue>,
}

/// The watched node, which must end before our turn.
struct Before {
    /// `None` if all nodes are watched: the end of any holder may make room.
    child: Option<String>,
    changed: Pin<Box<dyn Future<Output = WatchedEvent> + Send>>,
    /// The node before the watched one. While it exists, the turn of the watched one, an exclusive claim, has not
    /// come.
    ahead: Option<String>,
    /// Time since which we see that its turn has come and it does not hold.
    unclaimed: Option<Moment>,
}

enum Look {
    Waits,
    Granted(Grant),
    /// Our node is gone.
    Lost,
}

impl Store {
    /// Starts a task that wakes the waiter when its turn has come. The task ends with the waiter.
    pub(crate) fn wake_in_turn(
        self: &Arc<Self>,
        claim: &Claim,
        session: &Arc<Session>,
        node: &Node,
        waiter: &WaiterHandle,
        queue: &Queue,
    ) -> JoinHandle<()> {
        let (claim, session, node) = (claim.clone(), session.clone(), node.clone());
        let turn = Turn { claim, session, node, before: None, queue: Some(queue.clone()) };
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

    /// Reads the claims before ours, and watches the nearest.
    async fn look(&mut self, store: &Arc<Store>) -> Result<Look, BackendError> {
        let lock = store.root.lock(&self.claim.name);
        if self.is_far_back().await? {
            return Ok(Look::Waits);
        }
        loop {
            let asked = SystemClock.now();
            let queue = match self.queue.take() {
                Some(queue) => queue,
                None => store.queue(&self.session, &lock).await?,
            };
            let place = queue.entries().iter().position(|e| self.node.path.ends_with(&e.child));
            let Some(place) = place else { return Ok(Look::Lost) };
            let own = (place, self.claim.kind);
            let watches = match store.standing(&self.session, &lock, &queue, own).await? {
                Standing::Fits(slots) => {
                    self.node.slots = slots;
                    return self.claim(store, lock, asked).await;
                }
                // The next try reports it.
                Standing::Conflicts(_) => return Ok(Look::Lost),
                Standing::Behind(other) => self.watches(store, &lock, &queue, other).await?,
                Standing::Full => self.watches_all(&lock, &queue).await?,
            };
            if watches {
                return Ok(Look::Waits);
            }
        }
    }

    /// Returns true if the turn of the node before ours has not come. Reads two nodes, since reading a long queue
    /// would cost more: each waiter looks once a second.
    async fn is_far_back(&mut self) -> Result<bool, BackendError> {
        let ahead = self.before.as_ref().and_then(|before| before.ahead.as_ref());
        let Some(ahead) = ahead else { return Ok(false) };
        let client = self.session.client();
        let looks = (client.check_stat(ahead), client.check_stat(&self.node.path));
        let looks = tokio::try_join!(looks.0, looks.1);
        let (ahead, own) = looks.map_err(|error| self.session.failed(error))?;
        Ok(ahead.is_some() && own.is_some())
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

    /// Watches all claims on the lock; false if they differ from `queue`, so that we must look again.
    async fn watches_all(&mut self, lock: &str, queue: &Queue) -> Result<bool, BackendError> {
        if self.before.as_ref().is_some_and(|before| before.child.is_none()) {
            return Ok(true);
        }
        let watched = self.session.client().list_and_watch_children(lock).await;
        let (children, watcher) = watched.map_err(|error| self.session.failed(error))?;
        let changed = Box::pin(watcher.changed());
        self.before = Some(Before { child: None, changed, ahead: None, unclaimed: None });
        Ok(Queue::new(children).entries() == queue.entries())
    }

    /// Watches the node that must end before our turn; false if it is gone, so that we must look again.
    async fn watches(
        &mut self,
        store: &Arc<Store>,
        lock: &str,
        queue: &Queue,
        place: usize,
    ) -> Result<bool, BackendError> {
        let Some(Entry { child, kind, .. }) = queue.entries().get(place) else { return Ok(false) };
        let (path, may_hold) = (format!("{lock}/{child}"), place < queue.front());
        let ahead = queue.entries().iter().take(place).next_back();
        let ahead = ahead.filter(|_| *kind == Kind::Exclusive);
        let ahead = ahead.map(|ahead| format!("{lock}/{}", ahead.child));
        let known = self.before.take().filter(|before| before.child.as_ref() == Some(child));
        let (mut before, found) = match known {
            Some(before) if !may_hold => {
                self.before = Some(Before { ahead, ..before });
                return Ok(true);
            }
            Some(before) => (before, store.find(&self.session, &path).await?),
            None => match self.session.client().get_and_watch_data(&path).await {
                Ok((data, stat, watcher)) => {
                    let changed = Box::pin(watcher.changed());
                    let child = Some(child.clone());
                    let before = Before { child, changed, ahead, unclaimed: None };
                    (before, Some(Found::new((data, stat))))
                }
                Err(Error::NoNode) => return Ok(false),
                Err(error) => return Err(self.session.failed(error)),
            },
        };
        let Some(found) = found else { return Ok(false) };
        let is_unclaimed = may_hold
            && found.waits()
            && matches!(
                store.standing(&self.session, lock, queue, (place, *kind)).await?,
                Standing::Fits(_)
            );
        let since = is_unclaimed.then(|| before.unclaimed.unwrap_or_else(|| SystemClock.now()));
        before.unclaimed = since;
        self.before = Some(before);
        if since.is_some_and(|since| SystemClock.now().since(since) >= UNCLAIMED_LASTS) {
            self.overtake(&path, found.stat.version).await;
            return Ok(false);
        }
        Ok(true)
    }

    /// Deletes the node of a waiter that does not take its turn, unless it was written since. The next look
    /// notices an error.
    async fn overtake(&mut self, path: &str, version: i32) {
        let _ = self.session.client().delete(path, Some(version)).await;
    }
}
