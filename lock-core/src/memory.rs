//! Locks within one process: the whole contract in memory.

mod store;
mod watchers;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;

use self::store::{Lock, Recorded, Store, out_of_tokens};
use crate::backend::{
    Attempt, Changes, ClockReading, DistributedLock, Extension, LockAdmin, Recording, RecordsRuns,
    Release, Reserved, ReservesTokens, WaiterHandle,
};
use crate::model::{
    BackendError, Capabilities, Claim, Clock, Contention, Finding, Holder, Kinds, LockName,
    LockState, Moment, Occurrence, Order, OwnerId, Record, RecordedRun, Renewal, Renewals,
    Reservation, ServerTime, SystemClock, TokenDurability, Wakeup, Whom,
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

    /// Returns the store, locked, and the time.
    fn now(&self) -> (MutexGuard<'_, Store>, ClockReading) {
        let store = locked(&self.store);
        let wall = self.clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = self.clock.now().since(self.started);
        (store, ClockReading { now, error: Duration::ZERO, wall })
    }

    /// Ends holds or places of a lock by `act`, and grants to the waiters that fit then. `None` if the lock is not
    /// known.
    fn end<T>(
        &self,
        name: &LockName,
        act: impl FnOnce(&mut Lock, ClockReading) -> T,
    ) -> Result<Option<T>, BackendError> {
        let (mut store, at) = self.now();
        let Some(lock) = store.locks.get_mut(name) else { return Ok(None) };
        let ended = act(lock, at);
        lock.hand_over(at)?;
        store.watchers.tell(name);
        store.forget_if_idle(name);
        Ok(Some(ended))
    }
}

impl Store {
    /// Returns the outcome of an attempt at the time `at`.
    fn attempt(
        &mut self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
        at: ClockReading,
    ) -> Result<Attempt, BackendError> {
        self.refuse_withdrawn(claim)?;
        let lock = self.lock(&claim.name, at);
        lock.hand_over(at)?;
        let first = lock.queue.front().map(|first| (&first.claim).into());
        let attempt = lock.value.acquire(claim.into(), first, at).map_err(out_of_tokens)?;
        let time = ServerTime(at.now);
        let attempt = match attempt {
            Attempt::Granted(grant) => Attempt::Granted(grant.at(time)),
            Attempt::Busy(seen) => {
                let position = waiter.map(|waiter| lock.enqueue(claim, waiter));
                Attempt::Busy(Contention { position, at: Some(time), ..seen })
            }
        };
        self.watchers.tell(&claim.name);
        Ok(attempt)
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
        let (mut store, at) = self.now();
        store.attempt(claim, waiter, at)
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        let (mut store, at) = self.now();
        let extend = |renewal: &Renewal| match store.locks.get_mut(&renewal.name) {
            Some(lock) => Ok(lock.value.extend(renewal, at)),
            None => Ok(Extension::Lost),
        };
        renewals.iter().map(extend).collect()
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        let ended = self.end(name, |lock, at| lock.value.release(owner, at))?;
        Ok(ended.unwrap_or(Release::NotHeld))
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        let (mut store, at) = self.now();
        owners.iter().for_each(|owner| store.withdrawn.remember(*owner, at.now));
        drop(store);
        // C34: the queue moves on even if all of them only waited, since the waiters behind them may fit.
        self.end(name, |lock, at| {
            lock.queue.retain(|waiter| !owners.contains(&waiter.claim.owner));
            for owner in owners {
                lock.value.release(*owner, at);
            }
        })?;
        Ok(())
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
}

#[async_trait]
impl ReservesTokens for MemoryBackend {
    async fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError> {
        let ended = self.end(&hold.name, |lock, at| {
            let is_waited_for = lock.queue.iter().any(|waiter| !waiter.waiter.is_closed());
            match lock.value.reserve(hold, is_waited_for, at) {
                Some(tokens) => Reserved::Tokens(tokens),
                None => Reserved::Ended(lock.value.release(hold.owner, at)),
            }
        })?;
        Ok(ended.unwrap_or(Reserved::Ended(Release::NotHeld)))
    }
}

#[async_trait]
impl RecordsRuns for MemoryBackend {
    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        let (mut store, at) = self.now();
        Ok(store.record(record, at))
    }

    async fn runs(
        &self,
        name: &LockName,
        of: Option<&Occurrence>,
    ) -> Result<Vec<RecordedRun>, BackendError> {
        let (store, at) = self.now();
        let records = store
            .records
            .iter()
            .filter(|((lock, occurrence), _)| lock == name && of.is_none_or(|of| of == occurrence));
        let kept = records.filter(|(_, record)| at.now < record.expires);
        let run = |((_, occurrence), record): (&(_, Occurrence), &Recorded)| {
            RecordedRun::new(occurrence.clone(), record.token)
        };
        Ok(kept.map(run).collect())
    }

    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Result<bool, BackendError> {
        let (mut store, at) = self.now();
        let forgotten = store.records.remove(&(name.clone(), occurrence.clone()));
        Ok(forgotten.is_some_and(|record| at.now < record.expires))
    }
}

#[async_trait]
impl LockAdmin for MemoryBackend {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let (store, at) = self.now();
        Ok(store.state(name, at))
    }

    /// Signals all changes but an expiry, at which no code runs.
    fn changes(&self, name: &LockName) -> Option<Changes> {
        Some(locked(&self.store).watchers.add(name))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        let (store, at) = self.now();
        let states = store.locks.iter().map(|(name, lock)| lock.state(name, at));
        Ok(LockState::listed(states, prefix, limit))
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        let ended = self.end(name, |lock, at| lock.value.evict(whom, at))?;
        Ok(ended.unwrap_or_default())
    }

    async fn doctor(&self, _prefix: &str) -> Result<Vec<Finding>, BackendError> {
        Ok(vec![Finding::good("reach", "the locks only exclude tasks of this process")])
    }
}

#[cfg(test)]
mod specification;
#[cfg(test)]
mod tests;
