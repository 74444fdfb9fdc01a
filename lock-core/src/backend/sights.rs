//! Claims whose turn has come and that do not take it: their clients have died, or are cut off (C28).
//!
//! ```text
//!   its turn comes                                   the claim takes its turn, or is believed in no more
//!     ├──── believed in for less than UNTAKEN_LASTS, if the store lets a claim hold without a write ────┤
//!        ├──── seen, unchanged, for UNTAKEN_LASTS by the clock of another client ────┤ it is deleted
//! ```
//!
//! A client counts from a look that saw the claim due, so never from before its turn. The deletion compares the
//! version that was seen: a claim that takes its turn in time stays.

use std::time::Duration;

use foldhash::HashMap;

use crate::model::{LockName, Moment};
use crate::sync::{Mutex, locked};

/// Time for which a claim is seen due, and unchanged, before others delete it. With the look of up to 0.9 s before, it
/// is less than [`WAITER_LIVENESS`](super::WAITER_LIVENESS).
pub const UNTAKEN_LASTS: Duration = Duration::from_millis(1900);

/// Longest pause between two looks of a waiter. After a longer one it counts anew: while the store stood still, live
/// waiters could not take their turns either.
const LONGEST_PAUSE: Duration = Duration::from_millis(1500);

/// Time for which a try remembers what it saw.
const REMEMBERED: Duration = Duration::from_secs(60);

/// A sight of due claims, with their versions in the store, and since when they were seen so.
#[derive(Clone, Debug)]
pub struct Sight<V> {
    /// The claims.
    pub seen: V,
    since: Moment,
    last: Moment,
}

impl<V: PartialEq> Sight<V> {
    /// Returns the sight of a waiter that sees `seen` at `now`, and saw `before` at its last look.
    pub fn again(before: Option<Self>, seen: V, now: Moment) -> Self {
        Self::after(before, seen, now, LONGEST_PAUSE)
    }

    fn after(before: Option<Self>, seen: V, now: Moment, longest_pause: Duration) -> Self {
        let same = before.filter(|before| before.seen == seen);
        let since = same.filter(|same| now.since(same.last) < longest_pause);
        Self { seen, since: since.map_or(now, |same| same.since), last: now }
    }

    /// Returns the end of the time that the claims have to take their turns.
    pub fn end(&self) -> Moment {
        self.since.after(UNTAKEN_LASTS)
    }
}

/// The sights of a client's tries, which have no place in a queue: a later try of the same client counts from the
/// first one.
#[derive(Debug)]
pub struct Sights<V>(Mutex<HashMap<LockName, Sight<V>>>);

impl<V: Clone + PartialEq> Sights<V> {
    /// Notes the due claims that a try sees at `now`, if there are any. Returns true if they have been due since a try
    /// that was long enough ago.
    pub fn are_dead(&self, name: &LockName, seen: Option<&V>, now: Moment) -> bool {
        let mut sights = locked(&self.0);
        sights.retain(|_, sight| now.since(sight.last) < REMEMBERED);
        let before = sights.remove(name);
        let Some(seen) = seen else { return false };
        let sight = Sight::after(before, seen.clone(), now, REMEMBERED);
        let are_dead = now.has_reached(sight.end());
        sights.insert(name.clone(), sight);
        are_dead
    }
}

impl<V> Default for Sights<V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::WAITER_LIVENESS;
    use crate::model::{Clock, SystemClock};

    #[test]
    fn c28_a_pause_between_two_looks_of_a_waiter_begins_the_bound_anew() {
        let start = SystemClock.now();
        let look = |before, seconds| {
            Sight::again(before, "a", start.after(Duration::from_secs_f64(seconds)))
        };
        let regular = [0.0, 0.5, 1.0, 1.5].into_iter();
        let regular = regular.fold(None, |seen, at| Some(look(seen, at))).expect("a sight");
        assert_eq!(regular.end(), start.after(UNTAKEN_LASTS));
        let anew = look(Some(regular.clone()), 1.5 + LONGEST_PAUSE.as_secs_f64());
        assert_eq!(anew.end(), start.after(Duration::from_secs(3) + UNTAKEN_LASTS));
        let other = Sight::again(Some(regular), "b", start.after(UNTAKEN_LASTS));
        assert_eq!(other.end(), start.after(2 * UNTAKEN_LASTS));
        assert!(UNTAKEN_LASTS + Duration::from_millis(900) < WAITER_LIVENESS);
    }

    #[test]
    fn c28_a_later_try_finds_a_dead_claim_that_has_not_changed() {
        let (sights, start) = (Sights::default(), SystemClock.now());
        let name = LockName::new("a").expect("a name");
        let tries = |seen: Option<&u8>, at: Duration| sights.are_dead(&name, seen, start.after(at));
        assert!(!tries(Some(&1), Duration::ZERO));
        assert!(!tries(Some(&1), UNTAKEN_LASTS - Duration::from_millis(1)));
        assert!(tries(Some(&1), UNTAKEN_LASTS) && !tries(Some(&2), UNTAKEN_LASTS));
        assert!(!tries(None, 2 * UNTAKEN_LASTS) && !tries(Some(&2), 2 * UNTAKEN_LASTS));
        assert!(!tries(Some(&2), 2 * UNTAKEN_LASTS + REMEMBERED), "it was forgotten");
    }
}
