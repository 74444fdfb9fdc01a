//! Holds that several guards of a client share.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Weak};

use super::shared::Acquired;
use crate::model::{Kind, LockName, Reentrance};
use crate::sync::{Mutex, MutexGuard, locked};

/// The holds that requests of one [`Reentrance`] share, by lock (C43).
///
/// The guards of a hold own it together, and the last guard gives it back. Here a hold can only be found.
#[derive(Debug, Default)]
pub(crate) struct JointHolds {
    by_holder: Mutex<ByHolder>,
}

type ByHolder = HashMap<JointHolder, Vec<(Kind, Weak<Acquired>)>>;

/// Key of shared holds: the `Reentrance` of their requests. Holds of different kinds are separate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct JointHolder {
    pub(crate) me: Reentrance,
    pub(crate) name: LockName,
}

/// Returns true if a hold of the kind `held` serves a request of the kind `asked`.
fn serves(held: Kind, asked: Kind) -> bool {
    match (held, asked) {
        // A holder of an exclusive hold also reads under it. A holder of a shared hold does not write under it.
        (Kind::Exclusive, Kind::Shared) => true,
        (Kind::OneOf(held), Kind::OneOf(asked)) => {
            held.of() == asked.of() && held.taken() >= asked.taken()
        }
        (held, asked) => held == asked,
    }
}

impl JointHolds {
    /// Shares an acquired hold. If another hold is shared already, as readers or permits may have, the earlier one
    /// stays shared, and the new one is returned beside it.
    pub(crate) fn add(
        &self,
        holder: &JointHolder,
        kind: Kind,
        hold: Acquired,
    ) -> (Arc<Acquired>, Option<Acquired>) {
        let mut by_holder = self.by_holder();
        let holds = by_holder.entry(holder.clone()).or_default();
        // A lost hold needs no guard: its claim gives itself back.
        if let Some(first) =
            holds.iter().find_map(|(of, hold)| (*of == kind).then(|| hold.upgrade())?)
            && !first.hold.is_over()
        {
            return (first, Some(hold));
        }
        let joint = Arc::new(hold);
        holds.retain(|(of, _)| *of != kind);
        holds.push((kind, Arc::downgrade(&joint)));
        drop(by_holder);
        holder.me.added().notify_waiters();
        (joint, None)
    }

    /// Returns a part of each hold that serves a request of the kind `asked`; first that of a hold of this kind. The
    /// caller must make a guard of each, which ends the hold if it is the last.
    pub(crate) fn find(&self, holder: &JointHolder, asked: Kind) -> Vec<Arc<Acquired>> {
        let by_holder = self.by_holder();
        let Some(holds) = by_holder.get(holder) else { return Vec::new() };
        let (same, others): (Vec<_>, _) = holds.iter().partition(|(kind, _)| *kind == asked);
        let served = others.into_iter().filter(|(kind, _)| serves(*kind, asked));
        same.into_iter().chain(served).filter_map(|(_, hold)| hold.upgrade()).collect()
    }

    /// Waits until `find` has an answer for `holder`.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub(crate) async fn found<T>(&self, holder: &JointHolder, find: impl Fn() -> Option<T>) -> T {
        loop {
            // Listens before it looks, so that no addition is missed.
            let mut added = pin!(holder.me.added().notified());
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
        if let Some(holds) = by_holder.get_mut(holder) {
            holds.retain(|(_, hold)| hold.strong_count() > 0);
            if holds.is_empty() {
                by_holder.remove(holder);
            }
        }
        Some(last)
    }

    fn by_holder(&self) -> MutexGuard<'_, ByHolder> {
        locked(&self.by_holder)
    }
}
