//! Holds that several guards of a client share.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use super::shared::Acquired;
use crate::model::{Kind, LockName, Reentrance};
use crate::sync::{Mutex, MutexGuard, locked};

/// The holds that requests of one [`Reentrance`] share, by lock (C43).
///
/// The guards of a hold own it together, and the last guard gives it back. Here a hold can only be found.
#[derive(Debug, Default)]
pub(crate) struct JointHolds {
    by_holder: Mutex<HashMap<JointHolder, Weak<Acquired>>>,
    added: Notify,
}

/// Key of a shared hold: the `Reentrance` of its requests, and its kind. Holds of different kinds are separate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct JointHolder {
    pub(crate) me: Reentrance,
    pub(crate) name: LockName,
    pub(crate) kind: Kind,
}

impl JointHolds {
    /// Shares an acquired hold. If another hold is shared already, as readers or permits may have, the earlier one
    /// stays shared, and the new one is returned beside it.
    pub(crate) fn add(
        &self,
        holder: JointHolder,
        hold: Acquired,
    ) -> (Arc<Acquired>, Option<Acquired>) {
        let mut by_holder = self.by_holder();
        // A lost hold needs no guard: its claim gives itself back.
        if let Some(first) = by_holder.get(&holder).and_then(Weak::upgrade)
            && !first.hold.is_over()
        {
            return (first, Some(hold));
        }
        let joint = Arc::new(hold);
        by_holder.insert(holder, Arc::downgrade(&joint));
        self.added.notify_waiters();
        (joint, None)
    }

    /// Returns a part of a hold. The caller must make a guard of it, which ends the hold if it is the last.
    pub(crate) fn find(&self, holder: &JointHolder) -> Option<Arc<Acquired>> {
        self.by_holder().get(holder).and_then(Weak::upgrade)
    }

    /// Waits until `find` has an answer.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub(crate) async fn found<T>(&self, find: impl Fn() -> Option<T>) -> T {
        loop {
            // Listens before it looks, so that no addition is missed.
            let mut added = pin!(self.added.notified());
            added.as_mut().enable();
            if let Some(found) = find() {
                return found;
            }
            added.await;
        }
    }

    /// Returns the hold if this is its last part; then the caller alone ends it.
    pub(crate) fn last(&self, holder: &JointHolder, joint: Arc<Acquired>) -> Option<Acquired> {
        let last = Arc::into_inner(joint)?;
        let mut by_holder = self.by_holder();
        // A later hold may have taken its place.
        if by_holder.get(holder).is_some_and(|joint| joint.strong_count() == 0) {
            by_holder.remove(holder);
        }
        Some(last)
    }

    fn by_holder(&self) -> MutexGuard<'_, HashMap<JointHolder, Weak<Acquired>>> {
        locked(&self.by_holder)
    }
}
