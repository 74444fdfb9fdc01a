//! The holds that several guards of a client share.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use crate::model::{Kind, LockName, Reentrance};

/// The holds that requests of one [`Reentrance`] share, by lock (C43).
///
/// The guards of a hold own it together, so the last of them has what is given back. Here it is only found.
/// `H` is such a hold.
#[derive(Debug)]
pub(crate) struct JointHolds<H> {
    by_holder: Mutex<HashMap<JointHolder, Weak<H>>>,
    added: Notify,
}

/// Key of a shared hold: its requests, and its kind. A hold of one kind serves no other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct JointHolder {
    pub(crate) me: Reentrance,
    pub(crate) name: LockName,
    pub(crate) kind: Kind,
}

impl<H> JointHolds<H> {
    /// Shares what was acquired. If another hold is shared already, which readers or permits may have at the
    /// same time, that one stays, and what was acquired comes back beside it.
    pub(crate) fn add(
        &self,
        holder: JointHolder,
        hold: H,
        is_held: impl Fn(&H) -> bool,
    ) -> (Arc<H>, Option<H>) {
        let mut by_holder = self.by_holder();
        // A lost hold needs no guard to end it: its claim gives itself back.
        if let Some(first) = by_holder.get(&holder).and_then(Weak::upgrade)
            && is_held(&first)
        {
            return (first, Some(hold));
        }
        let joint = Arc::new(hold);
        by_holder.insert(holder, Arc::downgrade(&joint));
        self.added.notify_waiters();
        (joint, None)
    }

    /// A part of a hold. It must become a guard, which ends what nobody else has.
    pub(crate) fn find(&self, holder: &JointHolder) -> Option<Arc<H>> {
        self.by_holder().get(holder).and_then(Weak::upgrade)
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

    /// Returns the hold if this is its last part; the caller alone ends it then.
    pub(crate) fn last(&self, holder: &JointHolder, joint: Arc<H>) -> Option<H> {
        let last = Arc::into_inner(joint)?;
        let mut by_holder = self.by_holder();
        // A later hold may be in its place.
        if by_holder.get(holder).is_some_and(|joint| joint.strong_count() == 0) {
            by_holder.remove(holder);
        }
        Some(last)
    }

    fn by_holder(&self) -> MutexGuard<'_, HashMap<JointHolder, Weak<H>>> {
        self.by_holder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H> Default for JointHolds<H> {
    fn default() -> Self {
        Self { by_holder: Mutex::default(), added: Notify::new() }
    }
}
