//! One of the servers, and the requests to it, each with its own time limit.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::backend::{Claim, Release, Renewal, WaiterHandle};
use lock_core::{
    BackendError, Clock, FencingToken, LockName, Moment, Outcome, OwnerId, SystemClock,
};
use parking_lot::Mutex;
use redis::{ToRedisArgs, Value};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{sleep, timeout};

use super::BACKEND;
use super::absence::{self, Absence};
use super::keys::{FLOOR, HELD, HIGH, OUT, RUN, of_lock};
use super::membership::VoterReport;
use super::scripts::{self, EXTEND, GIVE_BACK, LET_IN, TELL, VOTE};
use super::votes::{self, Vote};
use crate::operations::renewals::holds_and_ttls;
use crate::protocol::error::{classify, unreadable};
use crate::protocol::keys::Keys;
use crate::protocol::reply;
use crate::scripts::Program;
use crate::topology::Topology;
use crate::wire::link::{Link, Role};
use crate::wire::node::Node;
use crate::wire::opening::Opener;
use crate::wire::push::new_channel;

/// Longest wait for one voter.
pub(super) const VOTER_LIMIT: Duration = Duration::from_millis(250);

/// Time after the request in which an answer counts. A restarted server is not admitted earlier: by then each client
/// has all its answers that could include one of the lost run.
pub(super) const ANSWER_COUNTS_FOR: Duration = Duration::from_secs(1);

/// Pause before the requests that are owed to a voter are tried again.
const OWED_PAUSE: Duration = Duration::from_millis(500);

/// Most requests owed to a voter. The oldest is given up first: its hold ends with its TTL.
const OWED_MOST: usize = 10_000;

/// One server of a quorum.
pub(super) struct Voter {
    /// Its address in the URL, without user and password.
    pub(super) address: String,
    pub(super) server: Arc<Topology>,
    /// Connections to the same server.
    pub(super) node: Arc<Node>,
    /// True if it did not answer the last request.
    is_silent: AtomicBool,
    /// True if it has said since the last look at this that it is new.
    is_new: AtomicBool,
    letting_in: Arc<OneTask>,
    owed: Mutex<VecDeque<Arc<GivingBack>>>,
    settling: OneTask,
}

/// Locked by the task that does the work. If the task ends with its runtime, a task of another runtime may do it.
type OneTask = tokio::sync::Mutex<()>;

/// The right to admit a voter.
pub(super) type LettingIn = OwnedMutexGuard<()>;

/// An attempt, for a voter.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    pub(super) claim: Claim,
    pub(super) ballot: FencingToken,
    /// The waiter to wake if the lock is busy.
    pub(super) waiter: Option<WaiterHandle>,
    /// True if a majority has the hold, and this voter lacks it.
    pub(super) restores: bool,
}

/// The end of an attempt or of a hold, for a voter.
#[derive(Clone, Debug)]
pub(super) struct GivingBack {
    pub(super) name: LockName,
    pub(super) owner: OwnerId,
    /// The last ballot of the claim, if it is known: a late vote for it is stale.
    pub(super) ballot: Option<FencingToken>,
    /// True if the lock was held, so that the next waiter is woken.
    pub(super) wakes: bool,
    /// True if a late request must find a mark.
    pub(super) marks: bool,
    /// True if a hold ends, not only an attempt: no late vote restores it.
    pub(super) ends: bool,
}

impl Voter {
    pub(super) fn new(address: String, opener: Opener) -> Self {
        let role = Role::Voter(scripts::lessons);
        let node = Node::new(String::new(), opener, role, new_channel());
        let node = Arc::new(node);
        Self {
            address,
            // A replica that takes over is another run. It stays out until no hold depends on the data that it lacks.
            server: Arc::new(Topology::One(node.clone())),
            node,
            is_silent: AtomicBool::new(false),
            is_new: AtomicBool::new(false),
            letting_in: Arc::default(),
            owed: Mutex::default(),
            settling: OneTask::default(),
        }
    }

    /// Asks for its vote, as one of those that were asked at this moment.
    pub(super) async fn vote(
        &self,
        proposal: &Proposal,
        asked: Moment,
    ) -> Result<Vote, BackendError> {
        let Proposal { claim, ballot, waiter, restores } = proposal;
        let (keys, owner) = (Keys::new(&claim.name), claim.owner.expose());
        let keys = [&of_lock(&keys, &owner)[..], &[RUN, OUT, HELD, HIGH, FLOOR]].concat();
        let channel =
            waiter.as_ref().and_then(|waiter| self.node.push.register(claim.owner, waiter));
        let channel = channel.unwrap_or_default();
        let (ttl, label) = (claim.ttl.as_millis(), claim.label.as_str());
        let ask = self.run_in(&VOTE, &keys, |run| {
            (run.to_owned(), &*owner, ballot.get(), ttl, label, &*channel, u8::from(*restores))
        });
        let (_, vote) = self.counted(asked, ask).await?;
        votes::read(self.present(vote)?)
    }

    /// Ends a claim on this server, as far as it exists here.
    pub(super) async fn give_back(&self, what: &GivingBack) -> Result<Release, BackendError> {
        let (keys, owner) = (Keys::new(&what.name), what.owner.expose());
        let ballot = what.ballot.map_or(0, FencingToken::get);
        let [wakes, marks, ends] = [what.wakes, what.marks, what.ends].map(u8::from);
        let args = (&*owner, ballot, &*self.node.channel, wakes, marks, ends);
        let keys = [&of_lock(&keys, &owner)[..], &[HIGH]].concat();
        let ask = self.server.run(&GIVE_BACK, &keys, args);
        reply::release(self.within_limit(ask).await?)
    }

    /// Does the same as [`give_back`](Self::give_back). If the server does not answer, the request is owed to it.
    pub(super) async fn give_back_or_owe(
        self: Arc<Self>,
        what: Arc<GivingBack>,
    ) -> Result<Release, BackendError> {
        let answer = self.give_back(&what).await;
        if answer.as_ref().is_err_and(BackendError::is_transient) {
            self.owe(what);
        }
        answer
    }

    fn owe(&self, what: Arc<GivingBack>) {
        let mut owed = self.owed.lock();
        if owed.len() >= OWED_MOST {
            owed.pop_front();
        }
        owed.push_back(what);
    }

    pub(super) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    pub(super) fn is_owed(&self) -> bool {
        !self.owed.lock().is_empty()
    }

    /// Sends the owed requests once the voter answers again (C19), unless another task does so. A request that fails
    /// goes to the end.
    pub(super) async fn settle(self: Arc<Self>) {
        // Another request may have come at the end.
        while self.is_owed()
            && let Ok(_alone) = self.settling.try_lock()
        {
            while let Some(next) = self.next_owed() {
                let failed = self.give_back(&next).await.is_err_and(|error| error.is_transient());
                self.is_answered(&next);
                if failed {
                    self.owe(next);
                    sleep(OWED_PAUSE).await;
                }
            }
        }
    }

    fn next_owed(&self) -> Option<Arc<GivingBack>> {
        self.owed.lock().front().cloned()
    }

    /// Removes the next owed request. It is owed until now: the task that sends it may end with its runtime.
    fn is_answered(&self, what: &Arc<GivingBack>) {
        let mut owed = self.owed.lock();
        // The request may have been given up meanwhile.
        if owed.front().is_some_and(|first| Arc::ptr_eq(first, what)) {
            owed.pop_front();
        }
    }

    /// Extends the holds on this server, as one of those that were asked at this moment; returns for each 1 if it
    /// exists here.
    pub(super) async fn extend(
        &self,
        renewals: &[Renewal],
        asked: Moment,
    ) -> Result<Vec<u8>, BackendError> {
        let locks: Vec<Keys<'_>> =
            renewals.iter().map(|renewal| Keys::new(&renewal.name)).collect();
        let keys: Vec<_> =
            [RUN, OUT, HELD].into_iter().chain(locks.iter().map(Keys::lock)).collect();
        let holds = holds_and_ttls(renewals);
        let ask = self.run_in(&EXTEND, &keys, |run| (holds.clone(), run.to_owned()));
        let (_, reply) = self.counted(asked, ask).await?;
        let answers: Vec<u8> = reply::read(self.present(reply)?, "renewals")?;
        match answers.len() == renewals.len() {
            true => Ok(answers),
            false => Err(unreadable("renewals")),
        }
    }

    /// Returns the facts that the server reports.
    pub(super) async fn tell(&self) -> Result<VoterReport, BackendError> {
        self.tell_within(VOTER_LIMIT).await
    }

    /// Does the same as [`tell`](Self::tell), for a client that must open all its connections.
    pub(super) async fn tell_within(&self, limit: Duration) -> Result<VoterReport, BackendError> {
        let ask = async {
            let keys = [RUN, OUT, HELD, HIGH, FLOOR];
            let (run, reply) = self.run_in(&TELL, &keys, |_| None::<u64>).await?;
            let (let_in, held, high, out): (String, u64, u64, u64) = reply::read(reply, "a voter")?;
            let (is_in, was_in) = (let_in == run, !let_in.is_empty());
            let [held, out] = [held, out].map(Duration::from_millis);
            Ok(VoterReport { run, is_in, was_in, held, high, out })
        };
        self.within(limit, ask).await
    }

    /// Admits this run of the server to vote, after `out`, and only for ballots above `floor`. A later run is not
    /// admitted.
    pub(super) async fn let_in(
        &self,
        run: &str,
        out: Duration,
        floor: u64,
    ) -> Result<(), BackendError> {
        let out = u64::try_from(out.as_millis()).unwrap_or(u64::MAX);
        let ask = self.server.run(&LET_IN, &[RUN, OUT, HELD, FLOOR], (run, out, floor));
        self.within_limit(ask).await.map(drop)
    }

    /// Returns true if the server has said that it is new. The next call returns true if it says so again.
    pub(super) fn takes_newness(&self) -> bool {
        self.is_new.swap(false, Ordering::Relaxed)
    }

    /// Returns the right to admit it, until it is dropped; `None` if another task has it.
    pub(super) fn begin_letting_in(&self) -> Option<LettingIn> {
        self.letting_in.clone().try_lock_owned().ok()
    }

    /// Waits for the right to admit it.
    pub(super) async fn letting_in(&self) -> LettingIn {
        self.letting_in.clone().lock_owned().await
    }

    /// Returns the answer of a server that counts. One that restarted neither has a hold nor lacks it.
    fn present(&self, reply: Value) -> Result<Value, BackendError> {
        let Some(absence) = absence::of(&reply) else { return Ok(reply) };
        if absence == Absence::New {
            self.is_new.store(true, Ordering::Relaxed);
        }
        Err(absence.error(&self.address))
    }

    /// Returns the server's fact `key` of INFO, if the server was reached.
    pub(super) fn known(&self, key: &str) -> Option<String> {
        reply::info_of(&self.node.connection.link().told(), key).map(str::to_owned)
    }

    /// Turns an answer after the voter's time limit into no answer (C17).
    pub(super) async fn within_limit<T>(
        &self,
        ask: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        self.within(VOTER_LIMIT, ask).await
    }

    /// Does the same as [`within_limit`](Self::within_limit), for answers of which a majority makes a hold. `asked` is
    /// the moment before the first server was asked.
    ///
    /// P2, C6: a client that was paused, with its timers, finds old answers, or asks the next server late. The servers
    /// may have lost their data since, and vote again.
    async fn counted<T>(
        &self,
        asked: Moment,
        ask: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        let answer = self.within_limit(ask).await;
        match SystemClock.now().since(asked) <= ANSWER_COUNTS_FOR {
            true => answer,
            false => Err(self.signed(BackendError::no_answer(BACKEND, ANSWER_COUNTS_FOR))),
        }
    }

    async fn within<T>(
        &self,
        limit: Duration,
        ask: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        let answer = timeout(limit, ask).await;
        self.is_silent.store(answer.is_err(), Ordering::Relaxed);
        let answer = answer.unwrap_or_else(|_| Err(BackendError::no_answer(BACKEND, limit)));
        answer.map_err(|error| self.signed(error))
    }

    /// Adds the server's address to the error, and the quorum's backend name.
    pub(super) fn signed(&self, error: BackendError) -> BackendError {
        let (outcome, context) = (error.outcome(), self.address.clone());
        match error.is_transient() {
            true => BackendError::transient(BACKEND, outcome, context, error),
            false => BackendError::permanent(BACKEND, outcome, context, error),
        }
    }

    /// Runs a program that must know the run of the server, and sends the run with the call.
    async fn run_in<A: ToRedisArgs>(
        &self,
        program: &Program,
        keys: &[impl ToRedisArgs],
        args: impl Fn(&str) -> A,
    ) -> Result<(String, Value), BackendError> {
        let (known, run) = self.identity().await?;
        let args = |link: &Arc<Link>| match Arc::ptr_eq(link, &known) {
            true => Ok(args(&run)),
            false => Err(replaced(Outcome::NotApplied)),
        };
        let answer = self.server.run_over(program, keys, args).await?;
        Ok((run, answer))
    }

    /// Waits for an answer, and returns it with the run of the server that gave it.
    pub(super) async fn with_run<T>(
        &self,
        answer: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<(String, T), BackendError> {
        let link = self.node.connection.link();
        let answer = answer.await?;
        // Another link may lead to another server.
        match Arc::ptr_eq(&link, &self.node.connection.link()) {
            true => Ok((reply::run_id(&link.told())?.to_owned(), answer)),
            false => Err(self.signed(replaced(Outcome::Unknown))),
        }
    }

    /// Returns the link, and the run of the server that answers on it: one link is one run.
    async fn identity(&self) -> Result<(Arc<Link>, String), BackendError> {
        let link = self.node.connection.link();
        self.node.connection.open(&link).await.map_err(classify)?;
        let run = reply::run_id(&link.told())?.to_owned();
        Ok((link, run))
    }
}

impl fmt::Debug for Voter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Voter").field(&self.address).finish()
    }
}

/// The error of a connection that was given up meanwhile.
fn replaced(outcome: Outcome) -> BackendError {
    let context = "the connection was replaced";
    BackendError::transient(BACKEND, outcome, context, "ask again")
}

#[cfg(test)]
mod tests;
