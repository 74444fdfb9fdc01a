//! A lock as one value: its holds, its last token, and the rules by which requests change them.

mod text;

use std::time::{Duration, UNIX_EPOCH};

use super::admission::Admission;
use super::answers::{Attempt, Extension, Grant, Release, TokenRange};
use super::next_token::next_token;
use crate::model::{
    Claim, Contention, FencingToken, Holder, InvalidInput, Kind, Label, LockName, LockState,
    OwnerId, Renewal, Reservation, Slots, Whom,
};

/// A reading of a store's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The time by which holds end, since any start that all readings of the store share.
    pub now: Duration,
    /// The most by which the time between two readings can exceed the time that has passed, such as a second for a
    /// clock of whole seconds. A hold is made longer by this error, so that it never lasts shorter than its grant.
    pub error: Duration,
    /// The time since 1970, from which tokens are made.
    pub wall: Duration,
}

impl ClockReading {
    /// A reading of an exact clock, which counts from 1970.
    pub fn exact(now: Duration) -> Self {
        Self { now, error: Duration::ZERO, wall: now }
    }

    /// Returns the time from which on `span` is over for certain.
    pub(super) fn after(self, span: Duration) -> Duration {
        self.now.saturating_add(span).saturating_add(self.error)
    }

    /// Returns the least time that is left until `end`.
    fn left_until(self, end: Duration) -> Duration {
        end.saturating_sub(self.now.saturating_add(self.error))
    }
}

/// A request for a hold: the part of a claim that decides.
#[derive(Clone, Copy, Debug)]
pub struct HoldRequest<'a> {
    /// The owner of the claim.
    pub owner: OwnerId,
    /// The kind of hold.
    pub kind: Kind,
    /// The hold lasts for this long from the grant.
    pub ttl: Duration,
    /// The label of the claim.
    pub label: &'a Label,
}

impl<'a> From<&'a Claim> for HoldRequest<'a> {
    fn from(claim: &'a Claim) -> Self {
        let Claim { owner, kind, ttl, label, .. } = claim;
        Self { owner: *owner, kind: *kind, ttl: ttl.as_duration(), label }
    }
}

/// A hold as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The holder.
    pub owner: OwnerId,
    /// The hold's own token, from the lock's one counter (C35).
    pub token: FencingToken,
    /// The kind of the hold, which decides on the holds beside it.
    pub kind: Kind,
    /// The slots of the hold, if it has permits.
    pub slots: Slots,
    /// The holder's own label.
    pub label: Label,
    /// Time of the grant since 1970.
    pub since: Duration,
    /// End of the hold on the store's clock, unless it is extended.
    pub expires: Duration,
}

impl Held {
    /// Returns the grant of this hold for `ttl`.
    pub fn grant(&self, ttl: Duration) -> Grant {
        Grant::new(self.token, ttl).with_slots(self.slots.clone())
    }

    /// C10: the end never moves back, since requests may overtake each other.
    fn last_at_least(&mut self, ttl: Duration, at: ClockReading) {
        self.expires = self.expires.max(at.after(ttl));
    }

    fn seen_at(&self, at: ClockReading) -> Holder {
        let left = at.left_until(self.expires);
        let holder = Holder::ours(self.owner, self.token, left, self.label.clone());
        let since = UNIX_EPOCH.checked_add(self.since).filter(|_| !self.since.is_zero());
        Holder { since, ..holder }.of_kind(self.kind, self.slots.clone())
    }
}

/// The holds and the last token of a lock: the one machine of all stores that have no server of their own.
///
/// Each method is a pure function of the value, the request and the time. The store makes it one step for all of its
/// clients: it reads the value, calls the method, and writes the value back, all under its own lock, or only if nobody
/// changed the value meanwhile.
///
/// The queue stays in the store's own layout. The store passes its first live waiter, and after each end of a hold or
/// of a place it lets in the waiters at the front:
///
/// ```text
///   a hold ends, or a waiter goes ──▶ let_in the first of the queue ──None──▶ it waits, and all behind it
///                                               ▲              │ granted
///                                               └── the next ◀─┘
/// ```
///
/// Withdrawals (C19) are the store's: it refuses a withdrawn claim before it calls [`acquire`](Self::acquire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "String", try_from = "String"))]
pub struct LockValue {
    last_token: Option<FencingToken>,
    holds: Vec<Held>,
}

impl LockValue {
    /// A free lock whose tokens follow `last`.
    pub fn after(last: Option<FencingToken>) -> Self {
        Self { last_token: last, holds: Vec::new() }
    }

    /// Returns the last token. It stays when holds end, so that the next token is greater (C22).
    pub fn last_token(&self) -> Option<FencingToken> {
        self.last_token
    }

    /// Returns each hold, in the order of the grants. Some may be over.
    pub fn holds(&self) -> &[Held] {
        &self.holds
    }

    /// Returns the hold of `owner`.
    pub fn of(&self, owner: OwnerId) -> Option<&Held> {
        self.holds.iter().find(|held| held.owner == owner)
    }

    /// Ends the holds whose time is over, and no others (C38).
    pub fn expire(&mut self, at: ClockReading) {
        self.holds.retain(|held| at.now < held.expires);
    }

    /// Grants a hold to `asked`, or finds its present hold. `first` is the first waiter.
    ///
    /// # Errors
    /// [`InvalidInput`] if the clock or the last token is beyond the greatest token.
    pub fn acquire(
        &mut self,
        asked: HoldRequest<'_>,
        first: Option<HoldRequest<'_>>,
        at: ClockReading,
    ) -> Result<Attempt, InvalidInput> {
        self.expire(at);
        // C16: a repeat finds its own grant.
        if let Some(own) = self.of_mut(asked.owner) {
            own.last_at_least(asked.ttl, at);
            return Ok(Attempt::Granted(own.grant(asked.ttl)));
        }
        // C34: waiters are not overtaken.
        if first.is_none()
            && let Some(held) = self.let_in(asked, at)?
        {
            return Ok(Attempt::Granted(held.grant(asked.ttl)));
        }
        let first = first.filter(|first| first.owner != asked.owner && first.kind.permits() > 0);
        let first_waiter = first.map(|first| Box::new((first.kind.permits(), first.label.clone())));
        Ok(Attempt::Busy(Contention { first_waiter, ..self.contention(at) }))
    }

    /// Grants a hold to the first waiter if it fits beside the present holds. The store goes on with the next waiter,
    /// until a waiter does not fit (C34).
    ///
    /// # Errors
    /// [`InvalidInput`] if the clock or the last token is beyond the greatest token.
    pub fn let_in(
        &mut self,
        first: HoldRequest<'_>,
        at: ClockReading,
    ) -> Result<Option<&Held>, InvalidInput> {
        self.expire(at);
        let held = self.holds.iter().map(|held| (held.kind, &held.slots));
        let Admission::Fits(slots) = Admission::of(first.kind, held) else { return Ok(None) };
        let token = self.next_token(at)?;
        self.last_token = Some(token);
        let HoldRequest { owner, kind, ttl, label } = first;
        let (label, since, expires) = (label.clone(), at.wall, at.after(ttl));
        self.holds.push(Held { owner, token, kind, slots, label, since, expires });
        Ok(self.holds.last())
    }

    /// C22: a value without a last token may have lost one within the clock's error, so it begins above all tokens that
    /// could be granted in that time.
    fn next_token(&self, at: ClockReading) -> Result<FencingToken, InvalidInput> {
        let lost = if self.last_token.is_none() { at.error } else { Duration::ZERO };
        next_token(self.last_token, at.wall.saturating_add(lost))
    }

    /// Extends a hold to its TTL from now. C10: an expired hold is not restored. Another token of the same owner is
    /// another hold.
    pub fn extend(&mut self, renewal: &Renewal, at: ClockReading) -> Extension {
        self.expire(at);
        let ttl = renewal.ttl.as_duration();
        match self.of_mut(renewal.owner).filter(|held| held.token == renewal.token) {
            Some(held) => {
                held.last_at_least(ttl, at);
                Extension::Extended(ttl)
            }
            None => Extension::Lost,
        }
    }

    /// Ends the hold of `owner`. S5: ends no hold of another owner.
    pub fn release(&mut self, owner: OwnerId, at: ClockReading) -> Release {
        self.expire(at);
        let before = self.holds.len();
        self.holds.retain(|held| held.owner != owner);
        if self.holds.len() < before { Release::Released } else { Release::NotHeld }
    }

    /// Reserves the tokens after the last one for a hold that continues within its client, none of them ahead of the
    /// clock (C26). `None` if the hold is over, if it yields to a waiter, or if there are no such tokens.
    pub fn reserve(
        &mut self,
        hold: &Reservation,
        is_waited_for: bool,
        at: ClockReading,
    ) -> Option<TokenRange> {
        self.expire(at);
        let goes_on = self.of(hold.owner).is_some() && !(hold.yields && is_waited_for);
        let last = self.last_token.filter(|_| goes_on)?;
        let tokens = TokenRange::behind_clock(last, hold.tokens, at.wall)?;
        self.last_token = Some(tokens.last());
        Some(tokens)
    }

    /// Returns true if `owner` holds the lock under `token` (C42).
    pub fn has(&mut self, owner: OwnerId, token: FencingToken, at: ClockReading) -> bool {
        self.expire(at);
        self.of(owner).is_some_and(|held| held.token == token)
    }

    /// Ends the holds of `whom`, and returns the former holders.
    pub fn evict(&mut self, whom: &Whom, at: ClockReading) -> Vec<Holder> {
        self.expire(at);
        let last = self.last_token;
        let ended = self.holds.extract_if(.., |held| whom.includes_owner(held.owner));
        ended.map(|held| held.seen_at(at).reserved(last)).collect()
    }

    /// Returns the lock as seen from outside, with the kind for which each waiter waits if the store knows its waiters.
    pub fn state(
        &self,
        name: &LockName,
        waiting: Option<Vec<Kind>>,
        at: ClockReading,
    ) -> LockState {
        let live = self.holds.iter().filter(|held| at.now < held.expires);
        let holders = live.map(|held| held.seen_at(at));
        let waiters = waiting.as_ref().map(|waiting| waiting.len() as u64);
        let state = LockState::new(name.clone(), holders, waiters);
        state.counted_as(waiting.into_iter().flatten().map(Kind::permits))
    }

    /// Describes the holders to a waiting claim. C38: the first hold that ends may leave room.
    fn contention(&self, at: ClockReading) -> Contention {
        let first = self.holds.first();
        Contention {
            ttl_left: self.holds.iter().map(|held| at.left_until(held.expires)).min(),
            holder: first.map(|held| held.label.clone()),
            permits: first.map_or(0, |held| held.kind.permits()),
            ..Contention::unknown()
        }
    }

    fn of_mut(&mut self, owner: OwnerId) -> Option<&mut Held> {
        self.holds.iter_mut().find(|held| held.owner == owner)
    }
}

#[cfg(test)]
mod tests;
