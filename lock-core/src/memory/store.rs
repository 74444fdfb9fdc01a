//! The state of the locks, and its changes.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use foldhash::HashMap;

use super::watchers::Watchers;
use crate::backend::{
    Extension, Grant, Held, Holds, Recording, Release, TokenRange, WaiterHandle, Withdrawals,
    next_token,
};
use crate::model::{
    BackendError, Claim, FencingToken, InvalidInput, Label, LockName, LockState, Moment,
    Occurrence, Outcome, OwnerId, Record, Renewal, Reservation, Slots, Ttl,
};

#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) locks: HashMap<LockName, Lock>,
    /// The greatest token that was ever granted, for any lock.
    pub(super) last_token: Option<FencingToken>,
    pub(super) withdrawn: Withdrawals,
    pub(super) watchers: Watchers,
    /// The runs that ended well, by lock and occurrence.
    pub(super) records: HashMap<(LockName, Occurrence), Recorded>,
}

#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) token: FencingToken,
    pub(super) expires: Moment,
}

#[derive(Debug, Default)]
pub(super) struct Lock {
    pub(super) holds: Holds<Moment>,
    /// The last token of this lock.
    pub(super) last_token: Option<FencingToken>,
    pub(super) queue: VecDeque<Waiter>,
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) claim: Claim,
    pub(super) waiter: WaiterHandle,
}

impl Store {
    pub(super) fn lock(&mut self, name: &LockName, now: Moment) -> &mut Lock {
        if self.locks.len() == self.locks.capacity() {
            self.locks.retain(|_, lock| !lock.is_idle(now));
        }
        self.locks.entry(name.clone()).or_default()
    }

    pub(super) fn expire(&mut self, name: &LockName, now: Moment) {
        if let Some(lock) = self.locks.get_mut(name) {
            lock.holds.expire(now);
        }
    }

    pub(super) fn forget_if_idle(&mut self, name: &LockName) {
        if self.locks.get(name).is_some_and(|lock| lock.holds.is_empty() && lock.queue.is_empty()) {
            self.locks.remove(name);
        }
    }

    pub(super) fn grant(
        &mut self,
        claim: &Claim,
        slots: Slots,
        now: Moment,
        wall: SystemTime,
    ) -> Result<Grant, BackendError> {
        let token = self.next_token(wall)?;
        let held = Held::of(claim, token, slots.clone(), now);
        let held = Held { since: Some(wall), ..held };
        let lock = self.lock(&claim.name, now);
        lock.holds.push(held);
        lock.last_token = Some(token);
        self.watchers.tell(&claim.name);
        Ok(Grant::new(token, claim.ttl.as_duration()).with_slots(slots))
    }

    /// Returns the last token plus one, or the time in microseconds if that is greater, so that tokens also grow from
    /// one run of the process to the next.
    fn next_token(&mut self, wall: SystemTime) -> Result<FencingToken, BackendError> {
        // C22: greater than all tokens before, also those of an earlier run.
        let wall = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        let token = next_token(self.last_token, wall).map_err(out_of_tokens)?;
        self.last_token = Some(token);
        Ok(token)
    }

    /// Reserves the tokens after the last one, if none of them is ahead of the clock.
    pub(super) fn reserve(
        &mut self,
        hold: &Reservation,
        now: Moment,
        wall: SystemTime,
    ) -> Option<TokenRange> {
        self.expire(&hold.name, now);
        let lock = self.locks.get(&hold.name);
        let held = lock.filter(|lock| lock.holds.of(hold.owner).is_some());
        let wanted = |lock: &Lock| lock.queue.iter().any(|waiter| !waiter.waiter.is_closed());
        if held.is_none_or(|lock| hold.yields && wanted(lock)) {
            return None;
        }
        let last = self.last_token?;
        let wall = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        let tokens = TokenRange::behind_clock(last, hold.tokens, wall);
        if let Some(tokens) = tokens {
            self.last_token = Some(tokens.last());
            self.lock(&hold.name, now).last_token = self.last_token;
        }
        tokens
    }

    pub(super) fn extend(&mut self, renewal: &Renewal, now: Moment) -> Extension {
        self.expire(&renewal.name, now);
        let (lock, ttl) = (self.locks.get_mut(&renewal.name), renewal.ttl.as_duration());
        match lock.is_some_and(|lock| lock.holds.extend(renewal.owner, renewal.token, ttl, now)) {
            true => Extension::Extended(ttl),
            false => Extension::Lost,
        }
    }

    /// Leaves the hold to nobody from now on; it ends after `delay`.
    pub(super) fn release_after(
        &mut self,
        name: &LockName,
        owner: OwnerId,
        delay: Ttl,
        now: Moment,
    ) -> Release {
        self.expire(name, now);
        let lock = self.locks.get_mut(name);
        match lock.is_some_and(|lock| lock.holds.retire(owner, delay.as_duration(), now)) {
            true => Release::Released,
            false => Release::NotHeld,
        }
    }

    pub(super) fn record(&mut self, record: &Record, now: Moment) -> Recording {
        self.expire(&record.name, now);
        // C42: only the hold of the run can record it.
        let lock = self.locks.get(&record.name);
        if !lock.is_some_and(|lock| lock.holds.has(record.owner, record.token)) {
            return Recording::Lost;
        }
        if self.records.len() == self.records.capacity() {
            self.records.retain(|_, record| !now.has_reached(record.expires));
        }
        let recorded = Recorded { token: record.token, expires: now.after(record.remember) };
        self.records.insert((record.name.clone(), record.occurrence.clone()), recorded);
        Recording::Recorded
    }

    pub(super) fn refuse_withdrawn(&self, claim: &Claim) -> Result<(), BackendError> {
        if self.withdrawn.contains(claim.owner) {
            return Err(BackendError::withdrawn("memory"));
        }
        Ok(())
    }

    pub(super) fn state(&self, name: &LockName, now: Moment) -> LockState {
        let lock = self.locks.get(name);
        let holders = lock.into_iter().flat_map(|lock| lock.holds.seen_at(now));
        let waiters = || lock.into_iter().flat_map(|lock| &lock.queue);
        let state = LockState::new(name.clone(), holders, Some(waiters().count() as u64));
        state.counted_as(waiters().map(|waiter| waiter.claim.kind.permits()))
    }
}

fn out_of_tokens(error: InvalidInput) -> BackendError {
    BackendError::permanent("memory", Outcome::NotApplied, "out of tokens", error)
}

impl Lock {
    /// Returns true if nobody holds the lock or waits for it.
    fn is_idle(&self, now: Moment) -> bool {
        self.holds.seen_at(now).next().is_none() && self.queue.is_empty()
    }

    /// Returns the number of permits and the label of the first waiter, if it waits for permits and is not `owner`.
    pub(super) fn first_waiter(&self, owner: OwnerId) -> Option<(u16, Label)> {
        let first = self.queue.front().map(|first| &first.claim)?;
        let counts = first.owner != owner && first.kind.permits() > 0;
        counts.then(|| (first.kind.permits(), first.label.clone()))
    }

    /// Takes a place at the end of the queue, or keeps the present place, with the claim's TTL and label from now on.
    /// Returns the number of waiters before it.
    pub(super) fn enqueue(&mut self, claim: &Claim, waiter: &WaiterHandle) -> u64 {
        self.queue.retain(|waiter| !waiter.waiter.is_closed());
        let place = self.queue.iter().position(|waiter| waiter.claim.owner == claim.owner);
        let place = place.unwrap_or(self.queue.len());
        let asked = Waiter { claim: claim.clone(), waiter: waiter.clone() };
        match self.queue.get_mut(place) {
            Some(waiter) => *waiter = asked,
            None => self.queue.push_back(asked),
        }
        place as u64
    }
}
