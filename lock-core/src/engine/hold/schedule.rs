//! The schedule of the renewer's looks at its holds.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use tokio::time::Instant;

use super::Hold;
use crate::model::{Moment, OwnerId};

/// Least sleep that counts as a suspend. Two readings of two clocks differ by less.
const SUSPENDED: Duration = Duration::from_millis(1);

/// The holds of a client, by owner and by the time of the next look. So the cost of a step depends on the holds that
/// are due, not on the number of all holds.
///
/// Moments are ordered by the clock that stops in suspend. A suspend makes that order meaningless, so every hold is
/// due once after it.
#[derive(Default)]
pub(super) struct Schedule {
    entries: HashMap<OwnerId, Entry>,
    by_time: BTreeMap<Key, Arc<Hold>>,
    /// Numbers entries of the same moment.
    drawn: u64,
    /// Time of the last call of `due`.
    asked: Option<Moment>,
}

type Key = (Instant, u64);

struct Entry {
    hold: Arc<Hold>,
    at: Moment,
    key: Key,
}

impl Schedule {
    pub(super) fn of(&self, owner: OwnerId) -> Option<&Arc<Hold>> {
        self.entries.get(&owner).map(|entry| &entry.hold)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn holds(&self) -> impl Iterator<Item = &Arc<Hold>> {
        self.by_time.values()
    }

    /// Schedules a look at a hold at `at`. It replaces another hold of the same owner.
    pub(super) fn put(&mut self, hold: Arc<Hold>, at: Moment) {
        self.remove(hold.owner);
        let key = self.next_key(at);
        self.by_time.insert(key, hold.clone());
        self.entries.insert(hold.owner, Entry { hold, at, key });
    }

    /// Moves the look at a hold to `at`, if the hold is still here.
    pub(super) fn put_off(&mut self, hold: &Arc<Hold>, at: Moment) {
        let key = self.next_key(at);
        let entry = self.entries.get_mut(&hold.owner);
        let Some(entry) = entry.filter(|entry| Arc::ptr_eq(&entry.hold, hold)) else { return };
        self.by_time.remove(&entry.key);
        self.by_time.insert(key, hold.clone());
        (entry.at, entry.key) = (at, key);
    }

    /// Moves the look at a hold to `within` after `now`, or to the next instant that counts as later: else it would
    /// be due again at once.
    pub(super) fn put_off_for(&mut self, hold: &Arc<Hold>, now: Moment, within: Duration) {
        self.put_off(hold, now.after(within.max(SUSPENDED)));
    }

    pub(super) fn remove(&mut self, owner: OwnerId) {
        if let Some(entry) = self.entries.remove(&owner) {
            self.by_time.remove(&entry.key);
        }
    }

    /// Removes all holds, and returns them.
    pub(super) fn take_all(&mut self) -> Vec<Arc<Hold>> {
        self.entries.clear();
        std::mem::take(&mut self.by_time).into_values().collect()
    }

    /// Returns the holds to look at now. Each must be moved or removed, or it is due again at once.
    pub(super) fn due(&mut self, now: Moment) -> Vec<Arc<Hold>> {
        let was_suspended = self.was_suspended(now);
        self.asked = Some(now);
        match was_suspended {
            // C6: a suspend counts.
            true => self.holds().cloned().collect(),
            false => self.by_time.range(..=until(now)).map(hold).collect(),
        }
    }

    /// Returns the holds to look at after `now`, soonest first.
    pub(super) fn after(&self, now: Moment) -> impl Iterator<Item = Arc<Hold>> {
        self.by_time.range(until(now)..).map(hold)
    }

    /// Returns the time of the soonest look.
    pub(super) fn next(&self) -> Option<Moment> {
        let (_, soonest) = self.by_time.first_key_value()?;
        self.entries.get(&soonest.owner).map(|entry| entry.at)
    }

    /// Returns true if the machine may have been suspended since the last call of `due`.
    fn was_suspended(&self, now: Moment) -> bool {
        self.asked.is_none_or(|asked| now.slept_since(asked) > SUSPENDED)
    }

    fn next_key(&mut self, at: Moment) -> Key {
        self.drawn += 1;
        (at.awake(), self.drawn)
    }
}

/// Returns the key before which all entries are due, by either clock. The clocks are read one after the other.
fn until(now: Moment) -> Key {
    (now.awake() + SUSPENDED, 0)
}

fn hold((_, hold): (&Key, &Arc<Hold>)) -> Arc<Hold> {
    hold.clone()
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schedule").field("holds", &self.entries.len()).finish_non_exhaustive()
    }
}
