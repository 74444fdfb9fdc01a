//! Claims that were withdrawn, remembered for a while.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::bounds::WITHDRAWAL_REMEMBERED;
use crate::model::OwnerId;

/// The withdrawn claims of a store that keeps them in its own memory (C19). Late requests of these claims are
/// refused.
///
/// Moments are spans since a start of the store's choice, on any one clock.
#[derive(Debug, Default)]
pub struct Withdrawals {
    forget_at: HashMap<OwnerId, Duration>,
    /// The same claims by time, oldest first. A claim that was withdrawn twice is here twice.
    by_time: VecDeque<(Duration, OwnerId)>,
}

impl Withdrawals {
    /// Marks the claim of `owner` as withdrawn from `now` on, and forgets old marks.
    pub fn remember(&mut self, owner: OwnerId, now: Duration) {
        self.forget(now);
        let at = now + WITHDRAWAL_REMEMBERED;
        self.forget_at.insert(owner, at);
        self.by_time.push_back((at, owner));
    }

    fn forget(&mut self, now: Duration) {
        while let Some(&(at, owner)) = self.by_time.front()
            && at <= now
        {
            self.by_time.pop_front();
            if self.forget_at.get(&owner) == Some(&at) {
                self.forget_at.remove(&owner);
            }
        }
    }

    /// Returns true if the claim of `owner` was withdrawn.
    pub fn contains(&self, owner: OwnerId) -> bool {
        self.forget_at.contains_key(&owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c19_a_withdrawal_is_remembered_for_thirty_seconds() {
        let at = Duration::from_secs;
        let (mut withdrawn, first, second) =
            (Withdrawals::default(), OwnerId::random(), OwnerId::random());
        withdrawn.remember(first, at(0));
        withdrawn.remember(second, at(29));
        assert!(withdrawn.contains(first) && withdrawn.contains(second));
        withdrawn.remember(second, at(30));
        assert!(!withdrawn.contains(first) && withdrawn.contains(second));
    }

    #[test]
    fn c19_a_repeated_withdrawal_is_remembered_from_the_repeat_on() {
        let at = Duration::from_secs;
        let (mut withdrawn, repeated, other) =
            (Withdrawals::default(), OwnerId::random(), OwnerId::random());
        withdrawn.remember(repeated, at(0));
        withdrawn.remember(repeated, at(20));
        withdrawn.remember(other, at(49));
        assert!(withdrawn.contains(repeated));
        withdrawn.remember(other, at(50));
        assert!(!withdrawn.contains(repeated));
        withdrawn.remember(other, at(80));
        assert_eq!((withdrawn.forget_at.len(), withdrawn.by_time.len()), (1, 1), "R4");
    }
}
