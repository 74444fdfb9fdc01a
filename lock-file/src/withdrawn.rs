//! Claims that were withdrawn, remembered for a while.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::OwnerId;

use crate::machine::Now;

/// How long a withdrawn claim is remembered, so that an attempt of it that comes late is refused.
const WITHDRAWN_FOR: Duration = Duration::from_secs(30);

/// The claims of this process that were withdrawn. No other process has requests of theirs.
#[derive(Debug, Default)]
pub(crate) struct Withdrawn(Mutex<Marks>);

#[derive(Debug, Default)]
struct Marks {
    owners: HashSet<OwnerId>,
    /// When each may be forgotten, oldest first.
    forget: VecDeque<(Duration, OwnerId)>,
}

impl Withdrawn {
    /// Remembers that the claim of `owner` was withdrawn, and forgets old ones.
    pub(crate) fn mark(&self, owner: OwnerId, now: &Now) {
        let mut marks = self.marks();
        while let Some(&(until, old)) = marks.forget.front()
            && until <= now.uptime
        {
            marks.owners.remove(&old);
            marks.forget.pop_front();
        }
        // C19: a late attempt of the claim is refused.
        if marks.owners.insert(owner) {
            let until = now.uptime + WITHDRAWN_FOR;
            marks.forget.push_back((until, owner));
        }
    }

    pub(crate) fn contains(&self, owner: OwnerId) -> bool {
        self.marks().owners.contains(&owner)
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_lasts_thirty_seconds_and_then_makes_room() {
        let at = |seconds| Now {
            boot: "boot".into(),
            uptime: Duration::from_secs(seconds),
            wall_micros: 0,
        };
        let (withdrawn, first, second) =
            (Withdrawn::default(), OwnerId::random(), OwnerId::random());
        withdrawn.mark(first, &at(0));
        withdrawn.mark(second, &at(29));
        assert!(withdrawn.contains(first) && withdrawn.contains(second));
        withdrawn.mark(second, &at(30));
        assert!(!withdrawn.contains(first) && withdrawn.contains(second));
        assert_eq!(withdrawn.marks().forget.len(), 1);
    }
}
