//! The keys of this client's claims, which are reused.
//!
//! The server keeps every former key until its history is compacted, and goes through all of them whenever it looks
//! for the claims on a lock. With a new key for each claim, every cycle would cost more than the one before. So a
//! client has a few seats, and the key of a claim ends with the first seat that is free on its lock:
//!
//! ```text
//!            lock a      lock b
//!   seat 1   claim 1     claim 3, later claim 4
//!   seat 2   claim 2     –
//! ```
//!
//! - A seat is reused for a lock once its claim is over, and all requests that could acquire something were answered.
//!   A release names the hold that it ends, and so may come late.
//! - Otherwise the key is not reused. A lock without another free seat gets a new seat in its place.
//! - A client that has more claims on one lock at once gets as many seats.
//! - The value has the owner of the claim. Other clients may find the key of a claim by it.

use std::collections::HashSet;
use std::sync::Arc;

use lock_core::OwnerId;

/// Number of seats at first: a lock that spoils some seats costs other locks none.
const SEATS: usize = 8;

/// Most claims of one client on one lock whose keys are reused: as many as hold permits beside each other.
const MOST: usize = 1_024;

/// Most remembered keys that are not reused. With one more, all seats are given up.
const SPOILED: usize = 1_000;

/// The seats of one client, and the keys of its claims.
pub(crate) struct Seats {
    seats: Vec<String>,
    taken: HashSet<Arc<str>>,
    spoiled: HashSet<Arc<str>>,
}

impl Default for Seats {
    fn default() -> Self {
        let (taken, spoiled) = Default::default();
        Self { seats: first_seats(), taken, spoiled }
    }
}

impl Seats {
    /// Returns a key for a new claim. `key` makes the key of a seat.
    pub(crate) fn take(&mut self, key: impl Fn(&str) -> String) -> Arc<str> {
        let key: Arc<str> = self.free_key(&key).unwrap_or_else(|| self.new_key(&key)).into();
        self.note(key.clone());
        key
    }

    fn free_key(&self, key: impl Fn(&str) -> String) -> Option<String> {
        let is_free = |key: &String| !self.taken.contains(&**key) && !self.spoiled.contains(&**key);
        self.seats.iter().map(|seat| key(seat)).find(is_free)
    }

    /// Returns a new key. If one of the lock's keys is spoiled, the new seat replaces the seat of that key.
    fn new_key(&mut self, key: impl Fn(&str) -> String) -> String {
        let new = seat();
        let new_key = key(&new);
        match self.seats.iter().position(|seat| self.spoiled.contains(&*key(seat))) {
            Some(spoiled) => self.seats[spoiled] = new,
            None if self.seats.len() < MOST => self.seats.push(new),
            None => {}
        }
        new_key
    }

    /// Notes the key of a claim that another client has made.
    pub(crate) fn note(&mut self, key: Arc<str>) {
        self.taken.insert(key);
    }

    /// Notes that the claim with this key is over, and that no request for it is in flight.
    pub(crate) fn free(&mut self, key: &str) {
        self.taken.remove(key);
    }

    /// Notes that the claim with this key is over. A late request may still change the key, so it is not reused.
    pub(crate) fn give_up(&mut self, key: &str) {
        self.taken.remove(key);
        if self.seats.iter().any(|seat| key.ends_with(seat.as_str())) {
            self.spoiled.insert(key.into());
        }
        if self.spoiled.len() > SPOILED {
            self.seats = first_seats();
            self.spoiled.clear();
        }
    }

    /// Returns true if a claim of this client has the key.
    pub(crate) fn is_taken(&self, key: &[u8]) -> bool {
        str::from_utf8(key).is_ok_and(|key| self.taken.contains(key))
    }
}

fn first_seats() -> Vec<String> {
    (0..SEATS).map(|_| seat()).collect()
}

/// Returns a random seat, since other clients have seats too: 128 bits, as for an owner.
fn seat() -> String {
    OwnerId::random().expose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seat: &str) -> String {
        format!("a/{seat}")
    }

    #[test]
    fn a_key_is_used_again_once_its_claim_is_over() {
        let mut seats = Seats::default();
        let one = seats.take(key);
        let other = seats.take(key);
        assert_ne!(one, other, "both are taken");
        assert!(seats.is_taken(one.as_bytes()));
        seats.free(&one);
        assert!(!seats.is_taken(one.as_bytes()));
        assert_eq!(seats.take(key), one);
        assert_ne!(seats.take(|seat| format!("b/{seat}")), one, "another lock");
    }

    #[test]
    fn c19_a_key_that_a_late_request_may_touch_is_not_used_again() {
        let mut seats = Seats::default();
        let one = seats.take(key);
        seats.give_up(&one);
        assert!(!seats.is_taken(one.as_bytes()));
        for _ in 0..2 * SEATS {
            assert_ne!(seats.take(key), one);
        }
    }

    #[test]
    fn a_key_that_is_spoiled_costs_no_other_lock_its_keys() {
        let mut seats = Seats::default();
        let other = seats.take(|seat| format!("b/{seat}"));
        seats.free(&other);
        let one = seats.take(key);
        seats.give_up(&one);
        assert_eq!(seats.take(|seat| format!("b/{seat}")), other);
        // However often this happens, the lock has keys that are reused.
        for _ in 0..3 * SEATS {
            let key = seats.take(key);
            seats.give_up(&key);
        }
        let one = seats.take(key);
        seats.free(&one);
        assert_eq!(seats.take(key), one);
    }

    #[test]
    fn c19_no_key_comes_back_when_too_many_are_spoiled() {
        let (mut seats, mut given_up) = (Seats::default(), HashSet::new());
        for i in 0..2 * SPOILED {
            let key = seats.take(|seat| format!("{}/{seat}", i % 300));
            seats.give_up(&key);
            assert!(given_up.insert(key));
        }
    }

    #[test]
    fn however_many_claims_there_are_each_has_a_key() {
        let mut seats = Seats::default();
        let keys: HashSet<_> = (0..2 * MOST).map(|_| seats.take(key)).collect();
        assert_eq!(keys.len(), 2 * MOST);
        keys.iter().for_each(|key| seats.free(key));
        assert!((0..MOST).all(|_| keys.contains(&seats.take(key))), "they are used again");
    }
}
