//! The waits of this client's claims, as far as its session must know.

use std::collections::HashMap;
use std::sync::Arc;

use lock_core::backend::{Claim, WaiterHandle};
use lock_core::{Kind, LockName, OwnerId};
use tokio::sync::watch;

/// A waiter with so many others before it need not listen yet. By the time that these have had the lock, it does.
pub(super) const FAR: u64 = 4;

/// The claims that wait. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Waits(Arc<watch::Sender<Waiting>>);

#[derive(Default)]
pub(super) struct Waiting(HashMap<OwnerId, Wait>);

struct Wait {
    waiter: WaiterHandle,
    /// The lock, if its turn is far.
    far_from: Option<LockName>,
}

impl Waits {
    /// Notes that a claim is about to wait. Its session is to listen before it knows its place.
    pub(super) fn add(&self, owner: OwnerId, waiter: &WaiterHandle) {
        self.modify(|waiting| waiting.add(owner, waiter));
    }

    /// Notes how many stand before a claim that waits.
    pub(super) fn place(&self, claim: &Claim, ahead: Option<u64>) {
        // C34: those who may hold the lock beside each other have their turn at the same time, and all listen.
        let is_far = claim.kind == Kind::Exclusive && ahead.is_some_and(|ahead| ahead >= FAR);
        let far_from = is_far.then(|| claim.name.clone());
        self.modify(|waiting| {
            if let Some(wait) = waiting.0.get_mut(&claim.owner) {
                wait.far_from = far_from;
            }
        });
    }

    /// Notes that a claim waits no more.
    pub(super) fn remove(&self, owner: OwnerId) {
        self.0.send_if_modified(|waiting| waiting.0.remove(&owner).is_some());
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Waiting> {
        self.0.subscribe()
    }

    /// The session is woken only if it has something else to do.
    fn modify(&self, change: impl FnOnce(&mut Waiting)) {
        self.0.send_if_modified(|waiting| {
            let before = waiting.alone_and_far().map(|(owner, _)| owner);
            change(waiting);
            before != waiting.alone_and_far().map(|(owner, _)| owner)
        });
    }
}

impl Waiting {
    fn add(&mut self, owner: OwnerId, waiter: &WaiterHandle) {
        // R4: as many as wait, and those who left without a word go before the map grows.
        if self.0.len() == self.0.capacity() {
            self.0.retain(|_, wait| !wait.waiter.is_closed());
        }
        let wait = || Wait { waiter: waiter.clone(), far_from: None };
        self.0.entry(owner).or_insert_with(wait).waiter = waiter.clone();
    }

    /// The claim that waits, and its lock, if there is no other and its turn is far. A session waits in the server for
    /// one lock at a time.
    pub(super) fn alone_and_far(&self) -> Option<(OwnerId, &LockName)> {
        let (owner, wait) = self.0.iter().next().filter(|_| self.0.len() == 1)?;
        Some((*owner, wait.far_from.as_ref()?))
    }

    pub(super) fn has(&self, owner: OwnerId) -> bool {
        self.0.contains_key(&owner)
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = OwnerId> {
        self.0.keys().copied()
    }
}
