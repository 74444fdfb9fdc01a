//! The holds that several guards of a client share.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use crate::model::{LockName, Reentrance};

/// What requests of one [`Reentrance`] share of each lock (C43).
///
/// The guards of a hold own it together, so the last of them has what is given back. Here it is only found.
/// `H` is such a hold.
#[derive(Debug)]
pub(crate) struct JointHolds<H> {
    by_holder: Mutex<HashMap<Holder, Weak<H>>>,
    added: Notify,
}

type Holder = (Reentrance, LockName);

impl<H> JointHolds<H> {
    /// Shares what was acquired.
    pub(crate) fn add(&self, me: &Reentrance, name: LockName, hold: H) -> Arc<H> {
        let joint = Arc::new(hold);
        self.by_holder().insert((me.clone(), name), Arc::downgrade(&joint));
        self.added.notify_waiters();
        joint
    }

    /// A part of the hold that `me` has of a lock. It must become a guard, which ends what nobody else has.
    pub(crate) fn find(&self, me: &Reentrance, name: &LockName) -> Option<Arc<H>> {
        self.by_holder().get(&(me.clone(), name.clone())).and_then(Weak::upgrade)
    }

    /// Waits until `find` has an answer.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub(crate) async fn found<T>(&self, find: impl Fn() -> Option<T>) -> T {
        loop {
            // Listens first, and looks then: so nothing is added in between.
            let mut added = pin!(self.added.notified());
            added.as_mut().enable();
            if let Some(found) = find() {
                return found;
            }
            added.await;
        }
    }

    /// Whether this is the last part of a hold, which is then the caller's alone to end.
    pub(crate) fn last(&self, me: &Reentrance, name: LockName, joint: Arc<H>) -> Option<H> {
        let last = Arc::into_inner(joint)?;
        let (mut by_holder, holder) = (self.by_holder(), (me.clone(), name));
        // A later hold may be in its place.
        if by_holder.get(&holder).is_some_and(|joint| joint.strong_count() == 0) {
            by_holder.remove(&holder);
        }
        Some(last)
    }

    fn by_holder(&self) -> MutexGuard<'_, HashMap<Holder, Weak<H>>> {
        self.by_holder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H> Default for JointHolds<H> {
    fn default() -> Self {
        Self { by_holder: Mutex::default(), added: Notify::new() }
    }
}
