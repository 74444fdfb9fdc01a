//! A backend that fails on demand.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use tokio::sync::watch;
use tokio::time::sleep;

use lock_core::backend::{
    AcquiresSeveral, Attempt, Changes, Claim, Extension, Grant, LossWatch, Record, Recording,
    RecordsRuns, Release, Renewal, Reservation, Reserved, ReservesTokens, WaiterHandle,
};
use lock_core::{
    BackendError, Capabilities, Contention, DistributedLock, FencingToken, Finding, Holder, Lease,
    LockAdmin, LockName, LockState, LostReason, Occurrence, Outcome, OwnerId, RecordedRun, Ttl,
    Whom,
};

/// An operation that may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Operation {
    Acquire,
    AcquireWhileFree,
    Extend,
    Release,
    ReleaseAfter,
    Record,
    Recorded,
    Runs,
    Forget,
    Withdraw,
    Close,
    Inspect,
    List,
    Evict,
    Doctor,
}

/// Fault of an operation.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The request is not carried out, and the error says so.
    Refused,
    /// The request is not carried out, and never will be: the error says that a retry does not help.
    Forbidden,
    /// The request is not carried out; the error says that the outcome is unknown.
    RequestLost,
    /// The request is carried out; the error says that the outcome is unknown.
    ReplyLost,
    /// The request is not carried out, and no answer ever comes.
    Silence,
    /// The request is carried out, and no answer ever comes.
    SilenceAfter,
    /// The request is carried out at once, and the answer comes late.
    Late(Duration),
    /// The request is not carried out: the backend panics.
    Panic,
}

/// Foreign value in a lock's place (C49).
#[derive(Clone, Copy, Debug)]
pub enum Foreign {
    /// A key without a TTL that could be a lock's: it holds the lock until it is evicted.
    KeyWithoutTtl,
    /// A value that is no lock.
    NoLock,
}

/// A backend between the client and a real one. It fails on demand, and counts calls.
#[derive(Clone, Debug)]
pub struct Faulty {
    backend: Arc<dyn DistributedLock>,
    plan: Arc<Mutex<Plan>>,
    losses: watch::Sender<HashMap<LockName, LostReason>>,
}

#[derive(Debug, Default)]
struct Plan {
    once: HashMap<Operation, VecDeque<Fault>>,
    always: HashMap<Operation, Fault>,
    calls: HashMap<Operation, usize>,
    last_claim: Option<Claim>,
    unextendable: Option<LockName>,
    jammed: HashSet<LockName>,
    servers: HashMap<LockName, u64>,
    foreign: HashMap<LockName, Foreign>,
    late_states: VecDeque<LockState>,
    is_deaf: bool,
}

impl Faulty {
    /// Passes all calls on to `backend` at first.
    pub fn new(backend: Arc<dyn DistributedLock>) -> Self {
        Self { backend, plan: Arc::default(), losses: watch::Sender::default() }
    }

    /// Lets the next call of `operation` without a fault meet `fault`.
    pub fn once(&self, operation: Operation, fault: Fault) {
        self.plan().once.entry(operation).or_default().push_back(fault);
    }

    /// Lets every further call of `operation` meet `fault`.
    pub fn always(&self, operation: Operation, fault: Fault) {
        self.plan().always.insert(operation, fault);
    }

    /// Makes the server refuse every later batch of renewals with this lock.
    pub fn refuse_to_extend(&self, name: &LockName) {
        self.plan().unextendable = Some(name.clone());
    }

    /// Lets no later request about this lock be carried out or answered, as if something outside had locked the
    /// backend's data.
    pub fn jam(&self, name: &LockName) {
        self.plan().jammed.insert(name.clone());
    }

    /// Moves this lock to the server with this number.
    pub fn move_to(&self, name: &LockName, server: u64) {
        self.plan().servers.insert(name.clone(), server);
    }

    /// Puts this in the place of a lock that nobody holds.
    pub fn put(&self, name: &LockName, foreign: Foreign) {
        self.plan().foreign.insert(name.clone(), foreign);
    }

    /// Lets the next inspection return this earlier state, as from a lagging replica.
    pub fn answer_late(&self, state: LockState) {
        self.plan().late_states.push_back(state);
    }

    /// Sends no signals of changes to later watches.
    pub fn tell_no_changes(&self) {
        self.plan().is_deaf = true;
    }

    /// Lets the backend see that the holds of `name` are over, for this reason.
    pub fn see_loss(&self, name: &LockName, reason: LostReason) {
        self.losses.send_modify(|losses| {
            losses.insert(name.clone(), reason);
        });
    }

    /// Returns the number of holds that are watched.
    pub fn watched(&self) -> usize {
        self.losses.receiver_count()
    }

    /// Lets no further call fail.
    pub fn heal(&self) {
        let mut plan = self.plan();
        plan.once.clear();
        plan.always.clear();
        plan.jammed.clear();
    }

    /// Returns the number of calls of `operation`.
    pub fn calls(&self, operation: Operation) -> usize {
        self.plan().calls.get(&operation).copied().unwrap_or(0)
    }

    /// Returns the last tried claim, so that a test can repeat it without the client.
    pub fn last_claim(&self) -> Option<Claim> {
        self.plan().last_claim.clone()
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, operation: Operation) -> Option<Fault> {
        let mut plan = self.plan();
        *plan.calls.entry(operation).or_default() += 1;
        let once = plan.once.get_mut(&operation).and_then(VecDeque::pop_front);
        once.or_else(|| plan.always.get(&operation).copied())
    }

    /// Returns true if a key without a TTL holds the lock. A value that is no lock is an error.
    fn is_stuck(&self, name: &LockName) -> Result<bool, BackendError> {
        match self.plan().foreign.get(name) {
            None => Ok(false),
            Some(Foreign::KeyWithoutTtl) => Ok(true),
            Some(Foreign::NoLock) => {
                Err(BackendError::not_a_lock("faulty", "something of the test"))
            }
        }
    }

    /// Makes a call about one lock, which may be jammed.
    async fn call_about<T>(
        &self,
        name: &LockName,
        operation: Operation,
        request: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        if self.plan().jammed.contains(name) {
            return pending().await;
        }
        self.call(operation, request).await
    }

    async fn call<T>(
        &self,
        operation: Operation,
        request: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        match self.fault(operation) {
            None => request.await,
            Some(Fault::Refused) => Err(failure(Outcome::NotApplied)),
            Some(Fault::Forbidden) => Err(forbidden("a right is missing")),
            Some(Fault::RequestLost) => Err(failure(Outcome::Unknown)),
            Some(Fault::ReplyLost) => request.await.and(Err(failure(Outcome::Unknown))),
            Some(Fault::Silence) => pending().await,
            // This panic avoids the panic hook, whose backtrace takes longer than a test's TTL.
            Some(Fault::Panic) => std::panic::resume_unwind(Box::new("a panic of the test")),
            Some(Fault::SilenceAfter) => {
                let _ = request.await;
                pending().await
            }
            Some(Fault::Late(delay)) => {
                let reply = request.await;
                sleep(delay).await;
                reply
            }
        }
    }
}

/// Returns the contention on a lock that a key without a TTL holds.
fn stuck() -> Contention {
    let mut contention = Contention::unknown();
    contention.foreign_without_ttl = true;
    contention
}

fn forbidden(why: &str) -> BackendError {
    BackendError::permanent("faulty", Outcome::NotApplied, why, "injected")
}

fn failure(outcome: Outcome) -> BackendError {
    BackendError::transient("faulty", outcome, "a fault of the test", "injected")
}

/// Returns the ability of the inner backend. This one has only the abilities of the inner one.
fn able<T>(can: Option<T>) -> Result<T, BackendError> {
    can.ok_or_else(|| failure(Outcome::NotApplied))
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl DistributedLock for Faulty {
    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    async fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        self.plan().last_claim = Some(claim.clone());
        let answer = async {
            match self.is_stuck(&claim.name)? {
                true => Ok(Attempt::Busy(stuck())),
                false => self.backend.acquire(claim, waiter).await,
            }
        };
        self.call_about(&claim.name, Operation::Acquire, answer).await
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        if renewals.iter().any(|renewal| self.plan().jammed.contains(&renewal.name)) {
            return pending().await;
        }
        let refused = self.plan().unextendable.clone();
        if renewals.iter().any(|renewal| Some(&renewal.name) == refused.as_ref()) {
            let refusal = forbidden("a refusal of the test");
            return renewals.iter().map(|_| Err(refusal.clone())).collect();
        }
        let extended = async { Ok(self.backend.extend(renewals).await) };
        match self.call(Operation::Extend, extended).await {
            Ok(answers) => answers,
            Err(error) => renewals.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.call_about(name, Operation::Release, self.backend.release(name, owner)).await
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        self.call_about(name, Operation::Withdraw, self.backend.withdraw(name, owners)).await
    }

    fn server_of(&self, name: &LockName) -> u64 {
        let moved = self.plan().servers.get(name).copied();
        moved.unwrap_or_else(|| self.backend.server_of(name))
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        let (name, mut losses) = (lease.name().clone(), self.losses.subscribe());
        let real = self.backend.watch(lease).unwrap_or_else(|| Box::pin(pending()));
        let told = async move {
            let seen = losses.wait_for(|losses| losses.contains_key(&name)).await;
            match seen.ok().and_then(|losses| losses.get(&name).copied()) {
                Some(reason) => reason,
                None => pending().await,
            }
        };
        Some(Box::pin(async move {
            tokio::select! {
                reason = real => reason,
                reason = told => reason,
            }
        }))
    }

    async fn close(&self) -> Result<(), BackendError> {
        self.call(Operation::Close, self.backend.close()).await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.backend.admin().map(|_| self as _)
    }

    fn token_ranges(&self) -> Option<&dyn ReservesTokens> {
        self.backend.token_ranges().map(|_| self as _)
    }

    fn run_records(&self) -> Option<&dyn RecordsRuns> {
        self.backend.run_records().map(|_| self as _)
    }

    fn several(&self) -> Option<&dyn AcquiresSeveral> {
        self.backend.several().map(|_| self as _)
    }
}

#[async_trait]
impl AcquiresSeveral for Faulty {
    async fn acquire_while_free(&self, claims: &[Claim]) -> Result<Vec<Grant>, BackendError> {
        self.plan().last_claim = claims.last().cloned();
        if claims.iter().any(|claim| self.plan().jammed.contains(&claim.name)) {
            return pending().await;
        }
        let is_free = |claim: &&Claim| matches!(self.is_stuck(&claim.name), Ok(false));
        let free: Vec<_> = claims.iter().take_while(is_free).cloned().collect();
        let answer = able(self.backend.several())?.acquire_while_free(&free);
        self.call(Operation::AcquireWhileFree, answer).await
    }
}

#[async_trait]
impl ReservesTokens for Faulty {
    async fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError> {
        let answer = able(self.backend.token_ranges())?.release_or_reserve(hold);
        self.call_about(&hold.name, Operation::Release, answer).await
    }
}

#[async_trait]
impl RecordsRuns for Faulty {
    async fn release_after(
        &self,
        name: &LockName,
        owner: OwnerId,
        delay: Ttl,
    ) -> Result<Release, BackendError> {
        let answer = able(self.backend.run_records())?.release_after(name, owner, delay);
        self.call_about(name, Operation::ReleaseAfter, answer).await
    }

    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        let answer = able(self.backend.run_records())?.record(record);
        self.call_about(&record.name, Operation::Record, answer).await
    }

    async fn recorded(
        &self,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<Option<FencingToken>, BackendError> {
        let answer = able(self.backend.run_records())?.recorded(name, occurrence);
        self.call_about(name, Operation::Recorded, answer).await
    }

    async fn runs(&self, name: &LockName) -> Result<Vec<RecordedRun>, BackendError> {
        let answer = able(self.backend.run_records())?.runs(name);
        self.call_about(name, Operation::Runs, answer).await
    }

    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Result<bool, BackendError> {
        let answer = able(self.backend.run_records())?.forget(name, occurrence);
        self.call_about(name, Operation::Forget, answer).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl LockAdmin for Faulty {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let late = self.plan().late_states.pop_front();
        let answer = async {
            if let Some(state) = late {
                return Ok(state);
            }
            match self.is_stuck(name)? {
                true => Ok(LockState::new(name.clone(), Some(Holder::foreign(None)), None)),
                false => able(self.backend.admin())?.inspect(name).await,
            }
        };
        self.call(Operation::Inspect, answer).await
    }

    fn changes(&self, name: &LockName) -> Option<Changes> {
        match self.plan().is_deaf {
            true => Some(Box::pin(stream::pending())),
            false => self.backend.admin()?.changes(name),
        }
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        self.call(Operation::List, able(self.backend.admin())?.list(prefix, limit)).await
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        let answer = async {
            match self.is_stuck(name)? {
                true => Ok(self
                    .plan()
                    .foreign
                    .remove(name)
                    .iter()
                    .map(|_| Holder::foreign(None))
                    .collect()),
                false => able(self.backend.admin())?.evict(name, whom).await,
            }
        };
        self.call(Operation::Evict, answer).await
    }

    async fn doctor(&self, prefix: &str) -> Result<Vec<Finding>, BackendError> {
        self.call(Operation::Doctor, able(self.backend.admin())?.doctor(prefix)).await
    }
}
