//! The requests that a broken backend remembers, beside its sound store.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::backend::{Claim, Renewal};
use lock_core::{FencingToken, Holder, LockName, LockState, Occurrence, OwnerId};
use tokio::time::Instant;

use super::flaw::Tokens;

#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The last granted claim of each lock, until its hold is ended. Expiries are not noticed.
    pub(super) claims: HashMap<LockName, Claim>,
    /// The end of each hold by its last extension.
    pub(super) ends: HashMap<LockName, Instant>,
    pub(super) waiting: Vec<(LockName, OwnerId)>,
    /// The waiters of evicted holds.
    pub(super) forgotten: HashSet<OwnerId>,
    pub(super) withdrawn: HashMap<OwnerId, Instant>,
    pub(super) states: HashMap<LockName, LockState>,
    pub(super) records: HashMap<(LockName, Occurrence), FencingToken>,
    rows: HashMap<LockName, Row>,
}

/// The last grant of a lock that another rule numbers.
#[derive(Debug)]
struct Row {
    number: FencingToken,
    /// The owner whose hold was not ended, though it may have expired.
    owner: Option<OwnerId>,
    /// The token of that hold in the sound backend.
    sound: FencingToken,
}

impl Seen {
    /// Notes that the hold of `owner` was ended.
    pub(super) fn ended_by(&mut self, name: &LockName, owner: OwnerId) {
        if self.claims.get(name).is_some_and(|claim| claim.owner == owner) {
            self.claims.remove(name);
        }
    }

    /// Notes that a release ended a hold.
    pub(super) fn released(&mut self, name: &LockName) {
        self.rows.entry(name.clone()).and_modify(|row| row.owner = None);
    }

    /// Notes an eviction, which may delete the row of the lock.
    pub(super) fn evicted(&mut self, name: &LockName, deletes_row: bool) {
        self.claims.remove(name);
        self.released(name);
        if deletes_row {
            self.rows.remove(name);
        }
        let waiting = self.waiting.iter().filter(|(waited_for, _)| waited_for == name);
        self.forgotten.extend(waiting.map(|(_, owner)| *owner));
    }

    pub(super) fn is_withdrawn(&self, owner: OwnerId, time: Duration) -> bool {
        self.withdrawn.get(&owner).is_some_and(|since| since.elapsed() < time)
    }

    /// Returns all locks whose hold was not ended, as held.
    pub(super) fn all_held(&self, prefix: &str, limit: usize) -> Vec<LockState> {
        let mut names: Vec<_> =
            self.claims.keys().filter(|name| name.as_str().starts_with(prefix)).cloned().collect();
        names.sort_unstable();
        let held = |name| LockState::new(name, Some(Holder::foreign(None)), None);
        names.into_iter().map(held).take(limit).collect()
    }

    /// Returns the number of a grant, whose token in the sound backend is `sound`.
    pub(super) fn number(
        &mut self,
        tokens: Tokens,
        claim: &Claim,
        sound: FencingToken,
    ) -> FencingToken {
        let last = self.rows.get(&claim.name);
        let is_own = last.is_some_and(|row| row.owner == Some(claim.owner));
        let is_repeat = is_own && last.is_some_and(|row| row.sound == sound);
        let has_expired = last.is_some_and(|row| row.owner.is_some()) && !is_repeat;
        let before = last.map_or(0, |row| row.number.get());
        let number = match tokens {
            _ if is_repeat => before,
            Tokens::OfTheOwner if is_own => before,
            Tokens::OfTheClock => {
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
            }
            Tokens::AnewAfterExpiry if has_expired => 1,
            _ => before + 1,
        };
        let number = FencingToken::new(number).expect("a good token");
        self.rows.insert(claim.name.clone(), Row { number, owner: Some(claim.owner), sound });
        number
    }

    /// Returns the token of a renewed hold in the sound backend.
    pub(super) fn sound_token(&self, renewal: &Renewal) -> FencingToken {
        let row = self.rows.get(&renewal.name).filter(|row| row.number == renewal.token);
        row.map_or(renewal.token, |row| row.sound)
    }
}
