//! The executable specification: the whole contract within one process.

mod watchers;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;

use self::watchers::Watchers;
use crate::backend::{
    AcquiresSeveral, Admission, Attempt, Changes, DistributedLock, Extension, Grant, Held, Holds,
    LockAdmin, Recording, RecordsRuns, Release, Reserved, ReservesTokens, TokenRange, WaiterHandle,
    Withdrawals, next_token,
};
use crate::model::{
    BackendError, Capabilities, Claim, Clock, Contention, FencingToken, Finding, Holder,
    InvalidInput, Kinds, LockName, LockState, Moment, Occurrence, Order, Outcome, OwnerId, Record,
    RecordedRun, Renewal, Renewals, Reservation, ServerTime, Slots, SystemClock, TokenDurability,
    Ttl, Wakeup, Whom,
};
use crate::sync::{Mutex, MutexGuard};

/// Locks within one process: for tests, and for programs of a single process. It is also the model for the tests of
/// the other backends.
///
/// Clones share their locks. It follows Tokio's paused time. It is not made for speed; for plain exclusion between
/// tasks use `tokio::sync::Mutex`.
#[derive(Clone, Debug)]
pub struct MemoryBackend {
    clock: Arc<dyn Clock>,
    started: Moment,
    store: Arc<Mutex<Store>>,
}

#[derive(Debug, Default)]
struct Store {
    locks: HashMap<LockName, Lock>,
    /// The greatest token that was ever granted, for any lock.
    last_token: Option<FencingToken>,
    withdrawn: Withdrawals,
    watchers: Watchers,
    /// The runs that ended well, by lock and occurrence.
    records: HashMap<(LockName, Occurrence), Recorded>,
}

#[derive(Debug)]
struct Recorded {
    token: FencingToken,
    expires: Moment,
}

#[derive(Debug, Default)]
struct Lock {
    holds: Holds<Moment>,
    queue: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    claim: Claim,
    waiter: WaiterHandle,
}

impl MemoryBackend {
    /// A store without locks, with the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// A store without locks, with the caller's clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let started = clock.now();
        Self { clock, started, store: Arc::default() }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn server_time(&self, now: Moment) -> ServerTime {
        ServerTime(now.since(self.started))
    }

    /// Returns the outcome of an attempt at the moment `now`.
    fn attempt(
        &self,
        store: &mut Store,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
        now: Moment,
    ) -> Result<Attempt, BackendError> {
        store.refuse_withdrawn(claim)?;
        store.expire(&claim.name, now);
        self.hand_over(store, &claim.name, now)?;
        let lock = store.lock(&claim.name, now);
        if let Some(held) = lock.holds.of_mut(claim.owner) {
            held.last_at_least(now, claim.ttl.as_duration());
            let grant = Grant::new(held.token, claim.ttl.as_duration());
            let grant = grant.with_slots(held.slots.clone()).at(self.server_time(now));
            return Ok(Attempt::Granted(grant));
        }
        match lock.holds.admission(claim.kind) {
            // C34: waiters are not overtaken.
            Admission::Fits(slots) if lock.queue.is_empty() => {
                let grant = store.grant(claim, slots, now, self.clock.wall())?;
                Ok(Attempt::Granted(grant.at(self.server_time(now))))
            }
            Admission::Conflicts(held) => {
                lock.queue.retain(|waiter| waiter.claim.owner != claim.owner);
                Err(BackendError::conflict("memory", claim.kind.permits(), held))
            }
            Admission::Fits(_) | Admission::Waits => {
                let position = waiter.map(|waiter| lock.enqueue(claim, waiter));
                let (seen, at) = (lock.holds.contention(now), Some(self.server_time(now)));
                store.watchers.tell(&claim.name);
                Ok(Attempt::Busy(Contention { position, at, ..seen }))
            }
        }
    }

    /// After a hold or a place may have ended: grants to the waiters that fit, and signals observers.
    fn ended(&self, store: &mut Store, name: &LockName, now: Moment) -> Result<(), BackendError> {
        self.hand_over(store, name, now)?;
        store.watchers.tell(name);
        store.forget_if_idle(name);
        Ok(())
    }

    /// Grants to all at the head of the queue that fit together (C34), and removes waiters that have gone.
    fn hand_over(
        &self,
        store: &mut Store,
        name: &LockName,
        now: Moment,
    ) -> Result<(), BackendError> {
        while let Some(lock) = store.locks.get_mut(name) {
            let Some(first) = lock.queue.front() else { return Ok(()) };
            let (claim, waiter) = (first.claim.clone(), first.waiter.clone());
            if waiter.is_closed() {
                lock.queue.pop_front();
                continue;
            }
            match lock.holds.admission(claim.kind) {
                Admission::Waits => return Ok(()),
                Admission::Fits(slots) => {
                    lock.queue.pop_front();
                    let grant = store.grant(&claim, slots, now, self.clock.wall())?;
                    waiter.granted(grant.at(self.server_time(now)));
                }
                Admission::Conflicts(_) => {
                    lock.queue.pop_front();
                    waiter.try_again();
                }
            }
        }
        Ok(())
    }
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl DistributedLock for MemoryBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(
            "memory",
            Order::Fifo,
            Wakeup::Push,
            Renewals::Batched,
            TokenDurability::CounterAndClock,
            Duration::from_nanos(1),
            "the locks end with the process, and so do their holders",
        )
        .with_kinds(Kinds::Permits)
    }

    async fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        self.attempt(&mut self.store(), claim, waiter, self.clock.now())
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        let now = self.clock.now();
        let mut store = self.store();
        renewals.iter().map(|renewal| Ok(store.extend(renewal, now))).collect()
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        let now = self.clock.now();
        let mut store = self.store();
        store.expire(name, now);
        let was_held = store.locks.get_mut(name).is_some_and(|lock| lock.holds.end(owner));
        self.ended(&mut store, name, now)?;
        Ok(if was_held { Release::Released } else { Release::NotHeld })
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        let now = self.clock.now();
        let mut store = self.store();
        for owner in owners {
            store.withdrawn.remember(*owner, self.server_time(now).0);
        }
        store.expire(name, now);
        if let Some(lock) = store.locks.get_mut(name) {
            lock.queue.retain(|waiter| !owners.contains(&waiter.claim.owner));
            for owner in owners {
                lock.holds.end(*owner);
            }
        }
        // C34: the queue moves on even if all of them only waited, since the waiters behind them may fit.
        self.ended(&mut store, name, now)
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    fn token_ranges(&self) -> Option<&dyn ReservesTokens> {
        Some(self)
    }

    fn run_records(&self) -> Option<&dyn RecordsRuns> {
        Some(self)
    }

    fn several(&self) -> Option<&dyn AcquiresSeveral> {
        Some(self)
    }
}

#[async_trait]
impl AcquiresSeveral for MemoryBackend {
    async fn acquire_while_free(&self, claims: &[Claim]) -> Result<Vec<Grant>, BackendError> {
        let (now, mut store) = (self.clock.now(), self.store());
        let attempts = claims.iter().map(|claim| self.attempt(&mut store, claim, None, now));
        // C39: stops at the first claim that is refused.
        let granted = attempts.map_while(|attempt| match attempt {
            Ok(Attempt::Granted(grant)) => Some(grant),
            Ok(Attempt::Busy(_)) | Err(_) => None,
        });
        Ok(granted.collect())
    }
}

#[async_trait]
impl ReservesTokens for MemoryBackend {
    async fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError> {
        let reserved = self.store().reserve(hold, self.clock.now(), self.clock.wall());
        match reserved {
            Some(tokens) => Ok(Reserved::Tokens(tokens)),
            None => self.release(&hold.name, hold.owner).await.map(Reserved::Ended),
        }
    }
}

#[async_trait]
impl RecordsRuns for MemoryBackend {
    async fn release_after(
        &self,
        name: &LockName,
        owner: OwnerId,
        delay: Ttl,
    ) -> Result<Release, BackendError> {
        Ok(self.store().release_after(name, owner, delay, self.clock.now()))
    }

    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        Ok(self.store().record(record, self.clock.now()))
    }

    async fn recorded(
        &self,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<Option<FencingToken>, BackendError> {
        let (now, store) = (self.clock.now(), self.store());
        let recorded = store.records.get(&(name.clone(), occurrence.clone()));
        Ok(recorded.filter(|record| !now.has_reached(record.expires)).map(|record| record.token))
    }

    async fn runs(&self, name: &LockName) -> Result<Vec<RecordedRun>, BackendError> {
        let (now, store) = (self.clock.now(), self.store());
        let records = store.records.iter().filter(|((lock, _), _)| lock == name);
        let kept = records.filter(|(_, record)| !now.has_reached(record.expires));
        let run = |((_, occurrence), record): (&(_, Occurrence), &Recorded)| {
            RecordedRun::new(occurrence.clone(), record.token)
        };
        Ok(kept.map(run).collect())
    }

    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Result<bool, BackendError> {
        let (now, mut store) = (self.clock.now(), self.store());
        let forgotten = store.records.remove(&(name.clone(), occurrence.clone()));
        Ok(forgotten.is_some_and(|record| !now.has_reached(record.expires)))
    }
}

#[async_trait]
impl LockAdmin for MemoryBackend {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let now = self.clock.now();
        Ok(self.store().state(name, now))
    }

    /// Signals all changes but an expiry, at which no code runs.
    fn changes(&self, name: &LockName) -> Option<Changes> {
        Some(self.store().watchers.add(name))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        let now = self.clock.now();
        let store = self.store();
        let states = store.locks.keys().map(|name| store.state(name, now));
        Ok(LockState::listed(states, prefix, limit))
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        let now = self.clock.now();
        let mut store = self.store();
        store.expire(name, now);
        let lock = store.locks.get_mut(name);
        let ended = lock.map_or_else(Vec::new, |lock| lock.holds.evict(whom, now));
        self.ended(&mut store, name, now)?;
        Ok(ended)
    }

    async fn doctor(&self, _prefix: &str) -> Result<Vec<Finding>, BackendError> {
        Ok(vec![Finding::good("reach", "the locks only exclude tasks of this process")])
    }
}

impl Store {
    fn lock(&mut self, name: &LockName, now: Moment) -> &mut Lock {
        if self.locks.len() == self.locks.capacity() {
            self.locks.retain(|_, lock| !lock.is_idle(now));
        }
        self.locks.entry(name.clone()).or_default()
    }

    fn expire(&mut self, name: &LockName, now: Moment) {
        if let Some(lock) = self.locks.get_mut(name) {
            lock.holds.expire(now);
        }
    }

    fn forget_if_idle(&mut self, name: &LockName) {
        if self.locks.get(name).is_some_and(|lock| lock.holds.is_empty() && lock.queue.is_empty()) {
            self.locks.remove(name);
        }
    }

    fn grant(
        &mut self,
        claim: &Claim,
        slots: Slots,
        now: Moment,
        wall: SystemTime,
    ) -> Result<Grant, BackendError> {
        let token = self.next_token(wall)?;
        let held = Held::of(claim, token, slots.clone(), now);
        let held = Held { since: Some(wall), ..held };
        self.lock(&claim.name, now).holds.push(held);
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
    fn reserve(&mut self, hold: &Reservation, now: Moment, wall: SystemTime) -> Option<TokenRange> {
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
        self.last_token = tokens.map_or(Some(last), |tokens| Some(tokens.last()));
        tokens
    }

    fn extend(&mut self, renewal: &Renewal, now: Moment) -> Extension {
        self.expire(&renewal.name, now);
        let (lock, ttl) = (self.locks.get_mut(&renewal.name), renewal.ttl.as_duration());
        match lock.is_some_and(|lock| lock.holds.extend(renewal.owner, renewal.token, ttl, now)) {
            true => Extension::Extended(ttl),
            false => Extension::Lost,
        }
    }

    /// Leaves the hold to nobody from now on; it ends after `delay`.
    fn release_after(
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

    fn record(&mut self, record: &Record, now: Moment) -> Recording {
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

    fn refuse_withdrawn(&self, claim: &Claim) -> Result<(), BackendError> {
        if self.withdrawn.contains(claim.owner) {
            return Err(BackendError::withdrawn("memory"));
        }
        Ok(())
    }

    fn state(&self, name: &LockName, now: Moment) -> LockState {
        let lock = self.locks.get(name);
        let holders = lock.into_iter().flat_map(|lock| lock.holds.seen_at(now));
        let waiters = lock.map_or(0, |lock| lock.queue.len() as u64);
        LockState::new(name.clone(), holders, Some(waiters))
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

    /// Takes a place at the end of the queue, or keeps the present place, with the claim's TTL and label from now on.
    /// Returns the number of waiters before it.
    fn enqueue(&mut self, claim: &Claim, waiter: &WaiterHandle) -> u64 {
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

#[cfg(test)]
mod specification;
#[cfg(test)]
mod tests;
