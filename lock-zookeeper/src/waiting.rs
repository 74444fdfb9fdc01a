//! Wakes waiters: an exclusive waiter watches only the node before its own.
//!
//! ```text
//!   holder ◀── first ◀── second ◀── third
//!              watches   watches    watches the one before it
//! ```
//!
//! The watch is one for children, which claims do not have: it tells the end of the node, and not that its claim
//! holds now. A waiter for permits watches the data too, since an earlier claim must have its slots first.
//!
//! A waiter whose turn has come writes into its node that it holds, which makes it a holder. If it does not do so
//! for a while, its client has died or is cut off, and a waiter behind it deletes the node. Nobody believes in a
//! hold that is not written, so this is never too early; it costs a slow client only its place.

use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use lock_core::backend::{Claim, FALLBACK_POLL, Grant, Sight, WaiterHandle};
use lock_core::{BackendError, Clock, Kind, Moment, SystemClock};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zookeeper_client::{Error, WatchedEvent};

use crate::attempt::Ask;
use crate::claims::Node;
use crate::places::Place;
use crate::queue::{Entry, Queue};
use crate::standing::Standing;
use crate::store::Store;

/// A waiter's turn.
struct Turn {
    claim: Claim,
    session: Arc<Place>,
    node: Node,
    before: Option<Before>,
    /// Node of the first claim, when the queue was last read, if ours cannot hold beside it.
    first: Option<String>,
    /// Node of a claim whose turn has come and that does not hold.
    untaken: Option<Sight<(String, i32)>>,
    /// The queue as it was read when the claim took its place, until the first look.
    queue: Option<Queue>,
    /// True if the first claim, the only one before ours, has ended or moved since the last look.
    is_next: bool,
}

/// The watched node, which must end before our turn.
struct Before {
    /// `None` if all nodes are watched: the end of any holder may make room.
    child: Option<String>,
    /// True if nothing is before it.
    is_first: bool,
    changed: Pin<Box<dyn Future<Output = WatchedEvent> + Send>>,
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
        session: &Arc<Place>,
        node: &Node,
        waiter: &WaiterHandle,
        queue: &Queue,
    ) -> JoinHandle<()> {
        let (claim, session, node) = (claim.clone(), session.clone(), node.clone());
        let (before, first, untaken) = Default::default();
        let queue = Some(queue.clone());
        let is_next = false;
        let turn = Turn { claim, session, node, before, first, untaken, queue, is_next };
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
                self.is_next = before.is_first && self.claim.kind == Kind::Exclusive;
                self.before = None;
            }
        }
    }

    /// Reads the claims before ours, and watches the nearest.
    async fn look(&mut self, store: &Arc<Store>) -> Result<Look, BackendError> {
        let lock = store.root.lock(&self.claim.name);
        if self.is_far_back(store).await? {
            return Ok(Look::Waits);
        }
        if mem::take(&mut self.is_next)
            && let Some(grant) = self.take_over(store).await?
        {
            return Ok(Look::Granted(grant));
        }
        loop {
            let asked = SystemClock.now();
            let queue = match self.queue.take() {
                Some(queue) => queue,
                None => store.queue(&self.session, &lock).await?,
            };
            let place = queue.entries().iter().position(|e| self.node.path.ends_with(&e.child));
            let Some(place) = place else { return Ok(Look::Lost) };
            let alone = |first: &&Entry| [first.kind, self.claim.kind].contains(&Kind::Exclusive);
            self.first = queue.first().filter(alone).map(|first| format!("{lock}/{}", first.child));
            let own = (place, self.claim.kind);
            let watches = match store.standing(&self.session, &lock, &queue, own).await? {
                Standing::Fits(slots) => {
                    self.node.slots = slots;
                    let ask = self.ask(store, asked);
                    return ask.claim(self.node.clone()).await.map(Look::Granted);
                }
                Standing::Behind(other) => self.watches(store, &lock, &queue, other).await?,
                Standing::Full => self.watches_all(&lock, &queue).await?,
            };
            if watches {
                return Ok(Look::Waits);
            }
        }
    }

    /// Returns true if the first claim holds, and ours cannot hold beside it. Reads two nodes, since reading a long queue
    /// would cost more: each waiter looks once a second.
    async fn is_far_back(&mut self, store: &Store) -> Result<bool, BackendError> {
        let first = self.first.as_ref().filter(|_| self.before.is_some());
        let Some(first) = first else { return Ok(false) };
        let find = |path| store.find(&self.session, path);
        let (first, own) = tokio::try_join!(find(first), find(&self.node.path))?;
        Ok(own.is_some() && first.is_some_and(|first| !first.waits()))
    }

    /// Writes that the claim holds, and reads the claims meanwhile. `None` if the claim before ours has only moved:
    /// then ours waits on, and nobody has believed in it.
    async fn take_over(&mut self, store: &Arc<Store>) -> Result<Option<Grant>, BackendError> {
        let (client, ask) = (self.session.client(), self.ask(store, SystemClock.now()));
        // Both requests are sent before the first answer.
        let read = client.list_children(&ask.lock);
        let node = ask.write(self.node.clone(), true).await?;
        let queue = store.read_queue(&self.session, read).await?;
        if queue.first().is_some_and(|first| node.path.ends_with(&first.child)) {
            return ask.granted(node).map(Some);
        }
        let node = ask.write(node, false).await?;
        (self.node, self.queue) = (node, Some(queue));
        Ok(None)
    }

    /// Returns the request of this waiter.
    fn ask<'a>(&'a self, store: &'a Arc<Store>, asked: Moment) -> Ask<'a> {
        let (session, lock) = (self.session.clone(), store.root.lock(&self.claim.name));
        Ask { store, claim: &self.claim, session, lock, asked }
    }

    /// Watches all claims on the lock; false if they differ from `queue`, so that we must look again.
    async fn watches_all(&mut self, lock: &str, queue: &Queue) -> Result<bool, BackendError> {
        if self.before.as_ref().is_some_and(|before| before.child.is_none()) {
            return Ok(true);
        }
        let watched = self.session.client().list_and_watch_children(lock).await;
        let (children, watcher) = watched.map_err(|error| self.session.failed(error))?;
        let changed = Box::pin(watcher.changed());
        self.before = Some(Before { child: None, is_first: false, changed });
        Ok(Queue::new(children).entries() == queue.entries())
    }

    /// Watches the node that must end before our turn; false if the queue has changed, so that we must look again.
    async fn watches(
        &mut self,
        store: &Store,
        lock: &str,
        queue: &Queue,
        place: usize,
    ) -> Result<bool, BackendError> {
        let Some(Entry { child, .. }) = queue.entries().get(place) else { return Ok(false) };
        let needs_slots = self.claim.kind.slots() > 0;
        if self.before.as_ref().is_some_and(|before| before.child.as_ref() == Some(child)) {
            return Ok(!self.overtakes(store, lock, queue, place).await?);
        }
        let (client, path) = (self.session.client(), format!("{lock}/{child}"));
        let watched = match needs_slots {
            true => client.get_and_watch_data(&path).await.map(|(_, _, watcher)| watcher),
            false => client.list_and_watch_children(&path).await.map(|(_, watcher)| watcher),
        };
        let watcher = match watched {
            Ok(watcher) => watcher,
            Err(Error::NoNode) => return Ok(false),
            Err(error) => return Err(self.session.failed(error)),
        };
        let (child, changed) = (Some(child.clone()), Box::pin(watcher.changed()));
        self.before = Some(Before { child, is_first: place == 0, changed });
        Ok(true)
    }

    /// Deletes the node of the first waiter, of the claims up to `place`, if its turn has come and it does not hold for
    /// a while (C28), unless the node was written since. Returns true if the queue may have changed.
    async fn overtakes(
        &mut self,
        store: &Store,
        lock: &str,
        queue: &Queue,
        place: usize,
    ) -> Result<bool, BackendError> {
        let before = self.untaken.take();
        let Some(untaken) = store.untaken(&self.session, lock, queue, place + 1).await? else {
            return Ok(false);
        };
        let now = SystemClock.now();
        let sight = Sight::again(before, untaken, now);
        if now.has_reached(sight.end()) {
            store.overtake(&self.session, &sight.seen).await;
            return Ok(true);
        }
        self.untaken = Some(sight);
        Ok(false)
    }
}
