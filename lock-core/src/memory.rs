//! The executable specification: the whole contract within one process.

mod store;
mod watchers;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::store::{Recorded, Store};
use crate::backend::{
    AcquiresSeveral, Admission, Attempt, Changes, DistributedLock, Extension, Grant, LockAdmin,
    Recording, RecordsRuns, Release, Reserved, ReservesTokens, WaiterHandle,
};
use crate::model::{
    BackendError, Capabilities, Claim, Clock, Contention, FencingToken, Finding, Holder, Kinds,
    LockName, LockState, Moment, Occurrence, Order, OwnerId, Record, RecordedRun, Renewal,
    Renewals, Reservation, ServerTime, SystemClock, TokenDurability, Ttl, Wakeup, Whom,
};
use crate::sync::{Mutex, MutexGuard, locked};

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
        locked(&self.store)
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
            Admission::Fits(_) | Admission::Waits => {
                let position = waiter.map(|waiter| lock.enqueue(claim, waiter));
                let (seen, at) = (lock.holds.contention(now), Some(self.server_time(now)));
                let first_waiter = lock.first_waiter(claim.owner).map(Box::new);
                store.watchers.tell(&claim.name);
                Ok(Attempt::Busy(Contention { position, at, first_waiter, ..seen }))
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
        let ended = lock.map_or_else(Vec::new, |lock| lock.holds.evict(whom, lock.last_token, now));
        self.ended(&mut store, name, now)?;
        Ok(ended)
    }

    async fn doctor(&self, _prefix: &str) -> Result<Vec<Finding>, BackendError> {
        Ok(vec![Finding::good("reach", "the locks only exclude tasks of this process")])
    }
}

#[cfg(test)]
mod specification;
#[cfg(test)]
mod tests;
