//! The server of a world: the memory backend, and a journal of its acts.

use std::sync::Arc;

use futures_util::FutureExt;
use lock_core::backend::{
    Attempt, Claim, Extension, Grant, Record, Recording, RecordsRuns, Release, Renewal,
    Reservation, Reserved, ReservesTokens, WaiterHandle,
};
use lock_core::{
    BackendError, Clock, DistributedLock, Holder, LockAdmin, LockName, LockState, MemoryBackend,
    Occurrence, OwnerId, RecordedRun, Ttl, Whom,
};

use crate::flaw::Flaw;
use crate::spoiled::Spoiled;
use crate::world::{ServedStep, World};

/// The store of a world. Each request is carried out at its arrival.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) world: Arc<World>,
    pub(crate) memory: MemoryBackend,
    pub(crate) spoiled: Spoiled,
}

impl Server {
    pub(crate) fn new(world: Arc<World>, clock: Arc<dyn Clock>) -> Arc<Self> {
        let spoiled = Spoiled::new(clock.clone());
        Arc::new(Self { world, memory: MemoryBackend::with_clock(clock), spoiled })
    }

    pub(crate) fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let mut attempt = at_once(self.memory.acquire(&self.as_kept(claim), waiter));
        match &mut attempt {
            Ok(Attempt::Granted(grant)) => self.granted(claim, grant),
            Ok(Attempt::Busy(seen)) => {
                self.told_busy(&claim.name, seen);
                seen.position.inspect(|_| self.queued(claim));
            }
            Err(_) => {}
        }
        attempt
    }

    fn queued(&self, claim: &Claim) {
        self.world.know(claim.label.as_str(), claim.name.as_str(), |asked| asked.is_queued = true);
        self.world.served(claim.name.as_str(), claim.owner, ServedStep::Queued);
    }

    /// Notes a grant, and changes it if a flaw does.
    pub(crate) fn granted(&self, claim: &Claim, grant: &mut Grant) {
        self.spoil(claim, grant);
        self.world.know(claim.label.as_str(), claim.name.as_str(), |asked| asked.is_queued = false);
        self.world.served(claim.name.as_str(), claim.owner, ServedStep::Granted(grant.token));
    }

    /// Notes that a claim has lost its place, and must ask again.
    pub(crate) fn sent_away(&self, claim: &Claim) {
        self.world.served(claim.name.as_str(), claim.owner, ServedStep::Gone);
    }

    pub(crate) fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        let mut kept = renewals.to_vec();
        let keeps_nobody_out = self.world.has(Flaw::NobodyKeptOut);
        let kept_for = |ttl| if keeps_nobody_out { Ttl::MIN } else { self.kept_for(ttl) };
        kept.iter_mut().for_each(|renewal| renewal.ttl = kept_for(renewal.ttl));
        let mut answers = at_once(self.memory.extend(&kept));
        for (answer, renewal) in answers.iter_mut().zip(renewals) {
            let is_told = self.world.has(Flaw::ExtensionOfTheLost);
            if is_told || matches!(answer, Ok(Extension::Extended(_))) {
                *answer = Ok(Extension::Extended(renewal.ttl.as_duration()));
            }
        }
        answers
    }

    pub(crate) fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.gone(name, owner);
        if self.world.has(Flaw::ReleaseForgotten) {
            return Ok(Release::Released);
        }
        if self.world.has(Flaw::ReleaseByName) {
            let ended = at_once(self.memory.evict(name, &Whom::All))?;
            return Ok(if ended.is_empty() { Release::NotHeld } else { Release::Released });
        }
        at_once(self.memory.release(name, owner))
    }

    /// Notes the end of a hold or place, while its holder is still known.
    fn gone(&self, name: &LockName, owner: OwnerId) {
        let holders = self.state(name).holders;
        let theirs = holders.iter().find(|holder| holder.owner == Some(owner.to_string()));
        if let Some(holder) = theirs {
            self.world.know(holder.label.as_str(), name.as_str(), |asked| asked.is_released = true);
        }
        self.world.served(name.as_str(), owner, ServedStep::Gone);
    }

    pub(crate) fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError> {
        match at_once(self.memory.release_or_reserve(hold))? {
            Reserved::Ended(release) => {
                self.gone(&hold.name, hold.owner);
                Ok(Reserved::Ended(release))
            }
            Reserved::Tokens(tokens) => Ok(Reserved::Tokens(self.spoil_range(&hold.name, tokens))),
        }
    }

    pub(crate) fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        owners.iter().for_each(|owner| self.gone(name, *owner));
        if self.world.has(Flaw::WithdrawalForgotten) {
            return owners.iter().try_for_each(|owner| self.release(name, *owner).map(drop));
        }
        at_once(self.memory.withdraw(name, owners))
    }

    pub(crate) fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        at_once(self.memory.record(record))
    }

    pub(crate) fn runs(
        &self,
        name: &LockName,
        of: Option<&Occurrence>,
    ) -> Result<Vec<RecordedRun>, BackendError> {
        match self.world.has(Flaw::RecordForgotten) {
            true => Ok(Vec::new()),
            false => at_once(self.memory.runs(name, of)),
        }
    }

    pub(crate) fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        self.world.note(format_args!("server {name} evicts"));
        let (evicted, now) = (at_once(self.memory.evict(name, whom))?, self.world.now());
        let mut journal = self.world.journal();
        journal.is_once_evicted |= name.as_str() == "once";
        let tokens = evicted.iter().filter_map(|holder| holder.token);
        journal.evictions.extend(tokens.map(|token| (name.as_str().to_owned(), token, now)));
        drop(journal);
        Ok(evicted)
    }

    /// Returns the present state of the lock.
    pub(crate) fn state(&self, name: &LockName) -> LockState {
        at_once(self.memory.inspect(name))
            .unwrap_or_else(|_| LockState::new(name.clone(), std::iter::empty::<Holder>(), None))
    }

    /// Returns true if the acquisition has a hold, a place or a request in flight.
    pub(crate) fn may_hold(&self, label: &str, name: &LockName) -> bool {
        let asked = self.world.known(label, name.as_str());
        let holds = self.state(name).holders.iter().any(|holder| holder.label.as_str() == label);
        holds || asked.is_queued || asked.on_their_way > 0
    }
}

/// Returns the answer of the memory backend, which never waits.
fn at_once<T>(answer: impl Future<Output = T>) -> T {
    answer.now_or_never().expect("the memory backend answers at once")
}
