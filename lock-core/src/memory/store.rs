//! The state of the locks, and its changes.

use std::collections::VecDeque;
use std::time::Duration;

use foldhash::HashMap;

use super::watchers::Watchers;
use crate::backend::{ClockReading, LockValue, Recording, WaiterHandle, Withdrawals};
use crate::model::{
    BackendError, Claim, FencingToken, InvalidInput, Kind, LockName, LockState, Occurrence,
    Outcome, Record, ServerTime,
};

#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) locks: HashMap<LockName, Lock>,
    /// The greatest token of the locks that were forgotten, which the tokens of new locks follow.
    forgotten: Option<FencingToken>,
    pub(super) withdrawn: Withdrawals,
    pub(super) watchers: Watchers,
    /// The runs that ended well, by lock and occurrence.
    pub(super) records: HashMap<(LockName, Occurrence), Recorded>,
}

#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) token: FencingToken,
    pub(super) expires: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Lock {
    pub(super) value: LockValue,
    pub(super) queue: VecDeque<Waiter>,
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) claim: Claim,
    pub(super) waiter: WaiterHandle,
}

impl Store {
    pub(super) fn lock(&mut self, name: &LockName, at: ClockReading) -> &mut Lock {
        if self.locks.len() == self.locks.capacity() {
            self.forget_idle(at);
        }
        let forgotten = self.forgotten;
        self.locks.entry(name.clone()).or_insert_with(|| Lock::after(forgotten))
    }

    fn forget_idle(&mut self, at: ClockReading) {
        let forgotten = &mut self.forgotten;
        self.locks.retain(|_, lock| {
            lock.value.expire(at);
            let is_used = lock.is_used();
            if !is_used {
                *forgotten = lock.value.last_token().max(*forgotten);
            }
            is_used
        });
    }

    pub(super) fn forget_if_idle(&mut self, name: &LockName) {
        if let Some(lock) = self.locks.get(name).filter(|lock| !lock.is_used()) {
            self.forgotten = lock.value.last_token().max(self.forgotten);
            self.locks.remove(name);
        }
    }

    pub(super) fn record(&mut self, record: &Record, at: ClockReading) -> Recording {
        // C42: only the hold of the run can record it.
        let lock = self.locks.get_mut(&record.name);
        if !lock.is_some_and(|lock| lock.value.has(record.owner, record.token, at)) {
            return Recording::Lost;
        }
        if self.records.len() == self.records.capacity() {
            self.records.retain(|_, record| at.now < record.expires);
        }
        let expires = at.now.saturating_add(record.remember);
        let recorded = Recorded { token: record.token, expires };
        self.records.insert((record.name.clone(), record.occurrence.clone()), recorded);
        Recording::Recorded
    }

    pub(super) fn refuse_withdrawn(&self, claim: &Claim) -> Result<(), BackendError> {
        if self.withdrawn.contains(claim.owner) {
            return Err(BackendError::withdrawn("memory"));
        }
        Ok(())
    }

    pub(super) fn state(&self, name: &LockName, at: ClockReading) -> LockState {
        match self.locks.get(name) {
            Some(lock) => lock.state(name, at),
            None => Lock::default().state(name, at),
        }
    }
}

pub(super) fn out_of_tokens(error: InvalidInput) -> BackendError {
    BackendError::permanent("memory", Outcome::NotApplied, "out of tokens", error)
}

impl Lock {
    fn after(last: Option<FencingToken>) -> Self {
        Self { value: LockValue::after(last), queue: VecDeque::new() }
    }

    /// Returns true if somebody holds the lock or waits for it.
    fn is_used(&self) -> bool {
        !self.value.holds().is_empty() || !self.queue.is_empty()
    }

    pub(super) fn state(&self, name: &LockName, at: ClockReading) -> LockState {
        let waiting: Vec<Kind> = self.queue.iter().map(|waiter| waiter.claim.kind).collect();
        self.value.state(name, Some(waiting), at)
    }

    /// Grants to all at the front of the queue that fit together (C34), and removes waiters that have gone.
    pub(super) fn hand_over(&mut self, at: ClockReading) -> Result<(), BackendError> {
        while let Some(Waiter { claim, waiter }) = self.queue.front() {
            if !waiter.is_closed() {
                let held = self.value.let_in(claim.into(), at).map_err(out_of_tokens)?;
                let Some(held) = held else { break };
                waiter.granted(held.grant(claim.ttl.as_duration()).at(ServerTime(at.now)));
            }
            self.queue.pop_front();
        }
        Ok(())
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
