//! When the renewer looks at which hold.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use tokio::time::Instant;

use super::hold::Hold;
use crate::model::{Moment, OwnerId};

/// A machine that slept for longer was suspended. Two readings of two clocks differ by less.
const SUSPENDED: Duration = Duration::from_millis(1);

/// The holds of a client, by owner and by the moment at which the renewer looks at each: so a step costs
/// what is due in it, however many are held.
///
/// Moments are in order by the clock that runs while the machine runs. After a suspend that order says
/// nothing, and every hold is due to be looked at once.
#[derive(Default)]
pub(super) struct Schedule {
    entries: HashMap<OwnerId, Entry>,
    by_time: BTreeMap<Key, Arc<Hold>>,
    /// Tells apart what is due at the same moment.
    drawn: u64,
    /// When it was last asked what is due.
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

    pub(super) fn holds(&self) -> impl Iterator<Item = &Arc<Hold>> {
        self.by_time.values()
    }

    /// Looks at a hold at `at`, in place of another hold of its owner if there is one.
    pub(super) fn put(&mut self, hold: Arc<Hold>, at: Moment) {
        self.remove(hold.owner);
        let key = self.next_key(at);
        self.by_time.insert(key, hold.clone());
        self.entries.insert(hold.owner, Entry { hold, at, key });
    }

    /// Looks at a hold at `at` and not before, if it is still here.
    pub(super) fn put_off(&mut self, hold: &Arc<Hold>, at: Moment) {
        let key = self.next_key(at);
        let entry = self.entries.get_mut(&hold.owner);
        let Some(entry) = entry.filter(|entry| Arc::ptr_eq(&entry.hold, hold)) else { return };
        self.by_time.remove(&entry.key);
        self.by_time.insert(key, hold.clone());
        (entry.at, entry.key) = (at, key);
    }

    /// Looks at a hold so long after `now`, or as soon after that as counts as later: else it would be due again at once.
    pub(super) fn put_off_for(&mut self, hold: &Arc<Hold>, now: Moment, within: Duration) {
        self.put_off(hold, now.after(within.max(SUSPENDED)));
    }

    pub(super) fn remove(&mut self, owner: OwnerId) {
        if let Some(entry) = self.entries.remove(&owner) {
            self.by_time.remove(&entry.key);
        }
    }

    /// Empties it.
    pub(super) fn take_all(&mut self) -> Vec<Arc<Hold>> {
        self.entries.clear();
        std::mem::take(&mut self.by_time).into_values().collect()
    }

    /// Returns the holds to look at now. Each must be put off or removed, or it is due again at once.
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

    /// When the soonest is to be looked at.
    pub(super) fn next(&self) -> Option<Moment> {
        let (_, soonest) = self.by_time.first_key_value()?;
        self.entries.get(&soonest.owner).map(|entry| entry.at)
    }

    /// Returns true if the machine may have been suspended since the last look at what is due.
    fn was_suspended(&self, now: Moment) -> bool {
        self.asked.is_none_or(|asked| now.slept_since(asked) > SUSPENDED)
    }

    fn next_key(&mut self, at: Moment) -> Key {
        self.drawn += 1;
        (at.awake(), self.drawn)
    }
}

/// Entries before this key are due, by either clock. The clocks are read one after the other.
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
