//! Claims that were withdrawn, remembered for a while.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use super::bounds::WITHDRAWAL_REMEMBERED;
use crate::model::OwnerId;

/// The withdrawn claims of a store that keeps them in its own memory (C19): a request of one that comes
/// late is refused.
///
/// Moments are spans since a start of the store's choice, on whatever clock it goes by.
#[derive(Debug, Default)]
pub struct Withdrawals {
    owners: HashSet<OwnerId>,
    /// When each may be forgotten, oldest first.
    forget_at: VecDeque<(Duration, OwnerId)>,
}

impl Withdrawals {
    /// Remembers that the claim of `owner` was withdrawn at `now`, and forgets old ones.
    pub fn remember(&mut self, owner: OwnerId, now: Duration) {
        while let Some(&(at, old)) = self.forget_at.front()
            && at <= now
        {
            self.owners.remove(&old);
            self.forget_at.pop_front();
        }
        if self.owners.insert(owner) {
            self.forget_at.push_back((now + WITHDRAWAL_REMEMBERED, owner));
        }
    }

    /// Whether the claim of `owner` was withdrawn.
    pub fn contains(&self, owner: OwnerId) -> bool {
        self.owners.contains(&owner)
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
        assert_eq!(withdrawn.forget_at.len(), 1);
    }
}
