//! The holders of a lock: the state that a store without a server of its own keeps.

use std::time::{Duration, SystemTime};

use super::admission::Admission;
use crate::model::{
    Claim, Contention, FencingToken, Holder, Kind, Label, Moment, OwnerId, Slots, Whom,
};

/// A point in time on the clock of a store.
pub trait StoreTime: Copy {
    /// Returns the time left until `end`; zero once it has come.
    fn left_until(self, end: Self) -> Duration;

    /// The point in time `span` later.
    #[must_use]
    fn later(self, span: Duration) -> Self;
}

impl StoreTime for Moment {
    fn left_until(self, end: Self) -> Duration {
        self.until(end)
    }

    fn later(self, span: Duration) -> Self {
        self.after(span)
    }
}

/// The time since a start of the store's choice.
impl StoreTime for Duration {
    fn left_until(self, end: Self) -> Duration {
        end.saturating_sub(self)
    }

    fn later(self, span: Duration) -> Self {
        self.saturating_add(span)
    }
}

/// One hold, as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held<T> {
    /// The holder.
    pub owner: OwnerId,
    /// Its own token, from the lock's one counter (C35).
    pub token: FencingToken,
    /// The kind: which holds the lock allows beside this one.
    pub kind: Kind,
    /// Its slots, if it is one of n.
    pub slots: Slots,
    /// The holder's own label.
    pub label: Label,
    /// Time of the grant on the wall clock, if it is known.
    pub since: Option<SystemTime>,
    /// End of the hold, unless it is extended.
    pub expires: T,
}

impl<T: StoreTime> Held<T> {
    /// The hold of `claim`, which begins at `now` and lasts for the claim's TTL.
    pub fn of(claim: &Claim, token: FencingToken, slots: Slots, now: T) -> Self {
        Self {
            owner: claim.owner,
            token,
            kind: claim.kind,
            slots,
            label: claim.label.clone(),
            since: None,
            expires: now.later(claim.ttl.as_duration()),
        }
    }

    /// Makes the hold last at least `ttl` from `now`. It never shortens the hold, since requests may overtake each
    /// other (C10).
    pub fn last_at_least(&mut self, now: T, ttl: Duration) {
        if now.left_until(self.expires) < ttl {
            self.expires = now.later(ttl);
        }
    }

    fn is_over(&self, now: T) -> bool {
        now.left_until(self.expires).is_zero()
    }

    fn seen_at(&self, now: T) -> Holder {
        let left = now.left_until(self.expires);
        let holder = Holder::ours(self.owner, self.token, left, self.label.clone());
        Holder { since: self.since, ..holder }.of_kind(self.kind, self.slots.clone())
    }
}

/// The holds of one lock, in the order of their grants: one, or several that fit together (C33).
///
/// The memory backend and the file backend share this part of a lock's state; each has its own queue. Both pass a
/// lock on in the same way:
///
/// ```text
///   a hold ends, or a waiter goes ──▶ the first of the queue: does it fit? ──no──▶ it waits, and all behind it
///                                               ▲                │ yes
///                                               └── granted ◀────┘
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holds<T>(Vec<Held<T>>);

impl<T> Default for Holds<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> FromIterator<Held<T>> for Holds<T> {
    fn from_iter<I: IntoIterator<Item = Held<T>>>(holds: I) -> Self {
        Self(holds.into_iter().collect())
    }
}

impl<T: StoreTime> Holds<T> {
    /// Returns true if nobody holds the lock.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns each hold, in the order of the grants.
    pub fn as_slice(&self) -> &[Held<T>] {
        &self.0
    }

    /// Adds the hold that was granted last.
    pub fn push(&mut self, held: Held<T>) {
        self.0.push(held);
    }

    /// The hold of `owner`.
    pub fn of(&self, owner: OwnerId) -> Option<&Held<T>> {
        self.0.iter().find(|held| held.owner == owner)
    }

    /// Returns the hold of `owner` for changes.
    pub fn of_mut(&mut self, owner: OwnerId) -> Option<&mut Held<T>> {
        self.0.iter_mut().find(|held| held.owner == owner)
    }

    /// Ends the holds whose time is over, and no others (C38).
    pub fn expire(&mut self, now: T) {
        self.0.retain(|held| !held.is_over(now));
    }

    /// Ends the hold of `owner`; returns true if there was one.
    pub fn end(&mut self, owner: OwnerId) -> bool {
        let before = self.0.len();
        self.0.retain(|held| held.owner != owner);
        self.0.len() < before
    }

    /// Ends the holds of `whom`, and returns the former holders. `last` is the last token of the lock, which may be
    /// reserved for an exclusive holder.
    pub fn evict(&mut self, whom: &Whom, last: Option<FencingToken>, now: T) -> Vec<Holder> {
        let ended = self.0.extract_if(.., |held| whom.includes_owner(held.owner));
        ended.map(|held| held.seen_at(now).reserved(last)).collect()
    }

    /// Extends the hold of `owner` under `token` to at least `ttl` from `now`; returns true if there is such a hold.
    pub fn extend(&mut self, owner: OwnerId, token: FencingToken, ttl: Duration, now: T) -> bool {
        let held = self.of_mut(owner).filter(|held| held.token == token);
        held.map(|held| held.last_at_least(now, ttl)).is_some()
    }

    /// Returns true if `owner` holds the lock under `token`.
    pub fn has(&self, owner: OwnerId, token: FencingToken) -> bool {
        self.of(owner).is_some_and(|held| held.token == token)
    }

    /// Keeps the hold of `owner` for nobody until `delay` after `now` (C41). Returns true if there is such a hold,
    /// also one that was retired before (C16).
    pub fn retire(&mut self, owner: OwnerId, delay: Duration, now: T) -> bool {
        let retired = owner.retired();
        let owns = |held: &&mut Held<T>| held.owner == owner || held.owner == retired;
        let Some(held) = self.0.iter_mut().find(owns) else { return false };
        // No request of the former owner changes the hold any more.
        (held.owner, held.expires) = (retired, now.later(delay));
        true
    }

    /// Decides on a request of the kind `asked` beside these holds.
    pub fn admission(&self, asked: Kind) -> Admission {
        Admission::of(asked, self.0.iter().map(|held| (held.kind, &held.slots)))
    }

    /// Returns the holders as seen from outside.
    pub fn seen_at(&self, now: T) -> impl Iterator<Item = Holder> {
        self.0.iter().filter(move |held| !held.is_over(now)).map(move |held| held.seen_at(now))
    }

    /// Describes the holders to a waiting claim. The first that ends may leave room.
    pub fn contention(&self, now: T) -> Contention {
        Contention {
            ttl_left: self.0.iter().map(|held| now.left_until(held.expires)).min(),
            holder: self.0.first().map(|held| held.label.clone()),
            permits: self.0.first().map_or(0, |held| held.kind.permits()),
            ..Contention::unknown()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LockRequest;

    /// C38: a hold that ends leaves room, also if an earlier holder has more time left.
    #[test]
    fn c38_a_waiter_is_told_of_the_hold_that_ends_first() {
        let (token, now) = (FencingToken::new(1).expect("a token"), Duration::ZERO);
        let mut holds = Holds::default();
        for seconds in [60, 1, 30] {
            let request = LockRequest::new("a").shared().ttl(Duration::from_secs(seconds));
            let claim = request.claim().expect("a good claim");
            holds.push(Held::of(&claim, token, Slots::NONE, now));
        }
        assert_eq!(holds.contention(now).ttl_left, Some(Duration::from_secs(1)));
    }
}
