//! The last ballot of each claim of this client.
//!
//! ```text
//!                    the attempt failed
//!              ┌──────────────────────────┐
//!              ▼                          │
//!   nothing ─────▶ open, ballot t ─────────
//!              propose      │      ▲ propose again: the same t (C16)
//!                           │      └──────
//!                           │ withdraw
//!                           ▼
//!                       withdrawn, until it is forgotten
//! ```
//!
//! A failed attempt is given back with its ballot, which raises the counter of each voter. So a late request of the
//! attempt stays stale for ever: no mark is needed. The next attempt needs a greater ballot.

use std::collections::HashMap;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use lock_core::backend::WITHDRAWAL_REMEMBERED;
use lock_core::{BackendError, FencingToken, OwnerId};
use parking_lot::Mutex;

use super::BACKEND;

/// The claims of this client that voters may know, and those that were withdrawn lately.
#[derive(Debug, Default)]
pub(super) struct Ballots {
    by_owner: Mutex<HashMap<OwnerId, Entry>>,
}

#[derive(Debug)]
struct Entry {
    /// `None` if the claim was withdrawn before this client proposed it.
    ballot: Option<FencingToken>,
    stage: Stage,
    /// True if it became a hold: late votes may restore it.
    is_renewed: bool,
    last_used: Instant,
}

/// A claim that was withdrawn.
#[derive(Debug, PartialEq)]
pub(super) struct Withdrawn {
    /// Its last ballot, if this client knows one.
    pub(super) ballot: Option<FencingToken>,
    /// True if it was a hold.
    pub(super) ends: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Votes for the ballot may exist, or may still come.
    Open,
    /// The grant was given back.
    Failed,
    Withdrawn,
}

impl Ballots {
    /// Returns the ballot of the next attempt of a claim: the last one while it may still be granted. Otherwise it is
    /// the time, but greater than the last one and than `seen`.
    pub(super) fn propose(&self, owner: OwnerId, seen: u64) -> Result<FencingToken, BackendError> {
        let mut entries = self.by_owner.lock();
        let last = match entries.get(&owner) {
            // C19: no more requests of it are sent.
            Some(Entry { stage: Stage::Withdrawn, .. }) => {
                return Err(BackendError::withdrawn(BACKEND));
            }
            // C16: a repeated attempt finds its own votes.
            Some(Entry { stage: Stage::Open, ballot: Some(ballot), .. }) => return Ok(*ballot),
            Some(entry) => entry.ballot.map_or(0, FencingToken::get),
            None => 0,
        };
        // C22: a slow clock only costs a second round; the order is kept.
        let ballot = wall_micros().max(seen + 1).max(last + 1);
        let ballot = FencingToken::new(ballot).map_err(|_| no_ballot_left())?;
        put(&mut entries, owner, Some(ballot), Stage::Open);
        Ok(ballot)
    }

    /// Notes that the attempt with the last ballot failed, and is given back.
    pub(super) fn fail(&self, owner: OwnerId) {
        if let Some(entry) = self.by_owner.lock().get_mut(&owner)
            && entry.stage == Stage::Open
        {
            entry.stage = Stage::Failed;
        }
    }

    /// Notes that the claim holds the lock with `ballot`, as far as this client knows.
    pub(super) fn remember(&self, owner: OwnerId, ballot: FencingToken) {
        let mut entries = self.by_owner.lock();
        if !entries.contains_key(&owner) {
            put(&mut entries, owner, Some(ballot), Stage::Open);
        }
        if let Some(entry) = entries.get_mut(&owner) {
            entry.is_renewed |= entry.ballot == Some(ballot);
            entry.last_used = Instant::now();
        }
    }

    /// Returns true if votes for `ballot` may still be asked for.
    pub(super) fn is_open(&self, owner: OwnerId, ballot: FencingToken) -> bool {
        let entries = self.by_owner.lock();
        entries
            .get(&owner)
            .is_some_and(|entry| entry.stage == Stage::Open && entry.ballot == Some(ballot))
    }

    /// Returns the last ballot of a claim, if this client knows one.
    pub(super) fn last(&self, owner: OwnerId) -> Option<FencingToken> {
        self.by_owner.lock().get(&owner).and_then(|entry| entry.ballot)
    }

    /// Notes that no voter keeps anything of the claim.
    pub(super) fn forget(&self, owner: OwnerId) {
        let mut entries = self.by_owner.lock();
        if entries.get(&owner).is_some_and(|entry| entry.stage != Stage::Withdrawn) {
            entries.remove(&owner);
        }
    }

    /// Notes that the claim is withdrawn.
    pub(super) fn withdraw(&self, owner: OwnerId) -> Withdrawn {
        let mut entries = self.by_owner.lock();
        let known = entries.get(&owner).map(|entry| (entry.ballot, entry.is_renewed));
        let (ballot, ends) = known.unwrap_or_default();
        put(&mut entries, owner, ballot, Stage::Withdrawn);
        if let Some(entry) = entries.get_mut(&owner) {
            entry.is_renewed = ends;
        }
        Withdrawn { ballot, ends }
    }
}

fn put(
    entries: &mut HashMap<OwnerId, Entry>,
    owner: OwnerId,
    ballot: Option<FencingToken>,
    stage: Stage,
) {
    // R4: stale entries are removed before the map grows. A waiting claim uses its entry at least once a second.
    if entries.len() == entries.capacity() && !entries.contains_key(&owner) {
        entries.retain(|_, entry| entry.last_used.elapsed() < WITHDRAWAL_REMEMBERED);
    }
    entries.insert(owner, Entry { ballot, stage, is_renewed: false, last_used: Instant::now() });
}

fn wall_micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(0)
}

fn no_ballot_left() -> BackendError {
    BackendError::refusal(BACKEND, "the fencing counter is damaged: delete that key on each server")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c16_a_repeat_proposes_the_same_ballot_until_the_attempt_has_failed() {
        let (ballots, owner) = (Ballots::default(), OwnerId::random());
        let first = ballots.propose(owner, 0).expect("a ballot");
        assert_eq!(ballots.propose(owner, 0).expect("a ballot"), first);
        ballots.fail(owner);
        assert!(ballots.propose(owner, 0).expect("a ballot") > first);
    }

    #[test]
    fn c22_a_ballot_is_greater_than_every_counter_seen() {
        let (ballots, owner) = (Ballots::default(), OwnerId::random());
        let ahead = wall_micros() + 1_000_000;
        assert_eq!(ballots.propose(owner, ahead).expect("a ballot").get(), ahead + 1);
        let last = FencingToken::MAX.get();
        assert!(ballots.propose(OwnerId::random(), last).is_err());
    }

    #[test]
    fn c19_a_withdrawn_claim_is_not_proposed() {
        let (ballots, owner) = (Ballots::default(), OwnerId::random());
        let first = ballots.propose(owner, 0).expect("a ballot");
        assert_eq!(ballots.withdraw(owner), Withdrawn { ballot: Some(first), ends: false });
        ballots.forget(owner);
        assert!(ballots.propose(owner, 0).is_err() && !ballots.is_open(owner, first));
        assert_eq!(ballots.withdraw(OwnerId::random()).ballot, None, "another client's");
        // Votes that restore a hold may come late.
        let (holder, ballot) = (OwnerId::random(), FencingToken::new(7).expect("a ballot"));
        ballots.remember(holder, ballot);
        let withdrawn = Withdrawn { ballot: Some(ballot), ends: true };
        assert_eq!(ballots.withdraw(holder), withdrawn);
        assert_eq!(ballots.withdraw(holder), withdrawn, "it is repeated");
    }

    #[test]
    fn c11_a_hold_that_was_given_back_is_open_no_more() {
        let (ballots, owner) = (Ballots::default(), OwnerId::random());
        let ballot = FencingToken::new(7).expect("a ballot");
        ballots.remember(owner, ballot);
        assert!(ballots.is_open(owner, ballot));
        ballots.forget(owner);
        assert!(!ballots.is_open(owner, ballot));
    }

    #[test]
    fn r4_stale_entries_make_room() {
        let ballots = Ballots::default();
        let add = || ballots.propose(OwnerId::random(), 0).expect("a ballot");
        add();
        let capacity = ballots.by_owner.lock().capacity();
        while ballots.by_owner.lock().len() < capacity {
            add();
        }
        for entry in ballots.by_owner.lock().values_mut() {
            entry.last_used -= WITHDRAWAL_REMEMBERED;
        }
        add();
        assert_eq!(ballots.by_owner.lock().len(), 1);
    }
}
