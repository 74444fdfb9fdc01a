//! A backend that fails on demand.

mod calls;

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use lock_core::backend::Claim;
use lock_core::{
    BackendError, Clock, Contention, DistributedLock, LockName, LockState, Moment, Outcome,
    SystemClock,
};

/// An operation that may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Operation {
    Acquire,
    Extend,
    Release,
    Record,
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
    losses: watch::Sender<HashSet<LockName>>,
}

#[derive(Debug, Default)]
struct Plan {
    once: HashMap<Operation, VecDeque<Fault>>,
    always: HashMap<Operation, Fault>,
    calls: HashMap<Operation, usize>,
    called_at: HashMap<Operation, Moment>,
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

    /// Lets the backend see that the holds of `name` are over.
    pub fn see_loss(&self, name: &LockName) {
        self.losses.send_modify(|losses| {
            losses.insert(name.clone());
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

    /// Returns the time of the last call of `operation`.
    pub fn called_at(&self, operation: Operation) -> Option<Moment> {
        self.plan().called_at.get(&operation).copied()
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
        plan.called_at.insert(operation, SystemClock.now());
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
