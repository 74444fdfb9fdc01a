//! A task of a machine: plays its script with the real client, and records its beliefs.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{
    Clock, FencingToken, LockClient, LockError, LockGuard, LockName, LockRequest, MultiGuard,
    MultiRequest, Outcome, Reentrance, Wait,
};
use tokio::time::{sleep, timeout};

use crate::clocks::MachineClock;
use crate::flaw::Flaw;
use crate::plan::Specialty;
use crate::register::Register;
use crate::script::{Ask, End, Leaves, Sort, Step, Use};
use crate::server::Server;
use crate::world::{Belief, World};

/// Tolerance for the time limit of a call (C17).
const GRACE: Duration = Duration::from_millis(100);

/// A loss is reported within this span after the deadline (C9).
const TOLD_WITHIN: Duration = Duration::from_millis(50);

/// A machine with its client.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) locks: LockClient,
    pub(crate) clock: Arc<MachineClock>,
    pub(crate) request_timeout: Duration,
    /// The right by which its tasks share holds.
    pub(crate) me: Reentrance,
}

/// One task.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) world: Arc<World>,
    pub(crate) server: Arc<Server>,
    pub(crate) hosts: Arc<Vec<Host>>,
    /// Registers of the locks "a" and "b".
    pub(crate) registers: Arc<[Register; 2]>,
    pub(crate) machine: usize,
    pub(crate) task: usize,
}

impl Worker {
    pub(crate) async fn run(self, steps: Vec<Step>) {
        for (number, step) in steps.iter().enumerate() {
            sleep(step.pause).await;
            let label = format!("m{}t{}s{number}", self.machine, self.task);
            match &step.ask {
                Ask::Evict(name) => {
                    let _ = self.host().locks.admin().evict(name).await;
                }
                Ask::Once(occurrence, at_least) => {
                    self.run_once(&label, step, *occurrence, *at_least).await;
                }
                Ask::One(..) | Ask::All(_) | Ask::Campaign => {
                    Box::pin(self.take(&label, step)).await
                }
            }
        }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.hosts[self.machine]
    }

    /// Acquires, uses and ends a hold.
    async fn take(&self, label: &str, step: &Step) {
        let (world, asked) = (&self.world, self.world.now());
        // Several locks without a wait are requested one by one.
        let is_bounded = !matches!(step.ask, Ask::All(_)) || step.wait != Some(Duration::ZERO);
        let limit = step
            .wait
            .filter(|_| is_bounded)
            .map(|wait| if wait.is_zero() { self.host().request_timeout } else { wait });
        let shared = self.shared_hold(step);
        let acquire = self.bounded("acquire", limit, self.acquire(label, step));
        let acquired = match leave(step.leaves, Box::pin(acquire)).await {
            Some(acquired) => acquired,
            None => return world.note(format_args!("{label} left")),
        };
        self.judge_sharing(label, step, shared, acquired.as_ref().ok());
        match acquired {
            Ok(guard) => self.hold(label, asked, guard, step).await,
            Err(error) => {
                world.note(format_args!("{label} was refused: {error}"));
                self.judge_outcome(label, &error);
            }
        }
    }

    async fn acquire(&self, label: &str, step: &Step) -> Result<MultiGuard, LockError> {
        let (locks, wait) = (&self.host().locks, step.wait.map_or(Wait::Forever, Wait::AtMost));
        match &step.ask {
            Ask::All(names) => {
                let request = MultiRequest::new(names).ttl(step.ttl).wait(wait).label(label);
                locks.acquire_all(request).await
            }
            Ask::One(name, sort) => {
                let request = LockRequest::new(name).ttl(step.ttl).wait(wait).label(label);
                let request = match *sort {
                    Sort::Exclusive => request,
                    Sort::Shared => request.shared(),
                    Sort::Permits(taken, of) => request.permits(taken, of),
                };
                let bound = step.max_hold;
                let request = bound.into_iter().fold(request, LockRequest::max_hold);
                let me = match self.world.has(Flaw::HoldsNotShared) {
                    true => &Reentrance::new(),
                    false => &self.host().me,
                };
                let me = self.shares_holds().then_some(me);
                let request = me.into_iter().fold(request, LockRequest::reentrant);
                locks.acquire(request).await.map(MultiGuard::from)
            }
            Ask::Campaign | Ask::Once(..) | Ask::Evict(_) => {
                let election = locks.election("election").ttl(step.ttl).wait(wait).label(label);
                Ok(election.campaign().await?.into_guard().into())
            }
        }
    }

    /// Returns the token of the hold that a request shares, if a task of its machine has one.
    fn shared_hold(&self, step: &Step) -> Option<FencingToken> {
        let Ask::One(name, Sort::Exclusive) = step.ask else { return None };
        let journal = self.world.journal();
        let (token, over) = journal.shared.get(&(self.machine, name))?;
        (!over.is_lost()).then_some(*token)
    }

    /// C43: a request shares the hold that a task of its machine has.
    fn judge_sharing(
        &self,
        label: &str,
        step: &Step,
        shared: Option<FencingToken>,
        acquired: Option<&MultiGuard>,
    ) {
        let guard = acquired.and_then(|guard| guard.guards().first());
        let token = guard.map(LockGuard::token);
        if shared.is_some() && token != shared {
            self.world.accuse("C43", format_args!("{label} has {token:?} beside {shared:?}"));
        }
        if self.shares_holds()
            && let Ask::One(name, Sort::Exclusive) = step.ask
            && let Some(guard) = guard
        {
            let hold = (guard.token(), guard.lost_signal());
            self.world.journal().shared.insert((self.machine, name), hold);
        }
    }

    /// C15: "certainly not applied" is reported only if no part of the request is on the server or in flight.
    fn judge_outcome(&self, label: &str, error: &LockError) {
        let LockError::Backend { name: Some(name), source, .. } = error else { return };
        if source.outcome() == Outcome::NotApplied && self.server.may_hold(label, name) {
            self.world
                .accuse("C15", format_args!("{label} may hold {name}, and was told: {error}"));
        }
    }

    /// Believes in a hold from now on, uses it, and ends it.
    async fn hold(&self, label: &str, asked: Duration, guard: MultiGuard, step: &Step) {
        let beliefs = self.believe(label, asked, guard.guards());
        self.use_it(&guard, step).await;
        self.end_beliefs(&beliefs, guard.guards());
        match step.end {
            End::Drop => drop(guard),
            End::Release => self.release(label, guard).await,
            End::Confirm | End::HandOn(_) => {
                let (last, others) = only_one(guard);
                drop(others);
                match (last, step.end) {
                    (Some(guard), End::HandOn(to)) if !self.shares_holds() => {
                        self.hand_on(label, guard, to, step).await
                    }
                    (Some(guard), _) => self.confirm(label, guard).await,
                    (None, _) => {}
                }
            }
        }
    }

    async fn release(&self, label: &str, guard: MultiGuard) {
        let limit = Some(self.host().request_timeout);
        let released = self.bounded("release", limit, self.end(guard)).await;
        self.world.note(format_args!("{label} released: {:?}", released.as_ref().err()));
        // C47: reports a loss, and nothing else.
        if let Err(error) = released
            && !error.is_lost()
        {
            self.world.accuse("C47", format_args!("a release told {error}"));
        }
    }

    /// Ends a hold.
    async fn end(&self, guard: MultiGuard) -> Result<(), LockError> {
        if !self.world.has(Flaw::ReleaseTellsFailures) {
            return guard.release().await;
        }
        let confirmed = guard.into_guards().into_iter().map(LockGuard::release_confirmed);
        join_all(confirmed).await.into_iter().try_for_each(|end| end.map(drop))
    }

    /// Releases with the server's confirmation (C15).
    async fn confirm(&self, label: &str, guard: LockGuard) {
        let (name, limit) = (guard.name().clone(), Some(self.host().request_timeout));
        let confirmed = self.bounded("release", limit, guard.release_confirmed()).await;
        self.world.note(format_args!("{label} confirmed: {confirmed:?}"));
        let Err(LockError::Backend { source, .. }) = confirmed else { return };
        let is_released = self.world.known(label, name.as_str()).is_released;
        if source.outcome() == Outcome::NotApplied && is_released {
            self.world
                .accuse("C15", format_args!("{label} released {name}, and was told {source}"));
        }
    }

    /// Hands a lease to another machine, which believes in it and releases it.
    async fn hand_on(&self, label: &str, guard: LockGuard, to: usize, step: &Step) {
        let (asked, other) = (self.world.now(), Self { machine: to, ..self.clone() });
        let Ok(lease) = guard.detach() else { return };
        // The hold lasts for its TTL if the other machine cannot be asked, or dies.
        self.world.journal().abandoned.insert(lease.name().to_string());
        let attach = other.host().locks.attach(lease);
        let limit = Some(other.host().request_timeout);
        let Ok(guard) = self.bounded("attach", limit, attach).await else { return };
        let guard = MultiGuard::from(guard);
        let beliefs = other.believe(label, asked, guard.guards());
        let _ = timeout(step.held_for, guard.lost()).await;
        other.end_beliefs(&beliefs, guard.guards());
        other.release(label, guard).await;
    }

    /// Records new beliefs; returns their places in the journal.
    pub(crate) fn believe(&self, label: &str, asked: Duration, guards: &[LockGuard]) -> Vec<usize> {
        let now = self.world.now();
        let belief = |guard: &LockGuard| Belief {
            label: label.to_owned(),
            name: guard.name().to_string(),
            kind: guard.kind(),
            token: guard.token(),
            slots: guard.slots(),
            shared_on: self.shares_holds().then_some(self.machine),
            asked,
            from: now,
            to: now,
        };
        let place = |guard| {
            let belief = belief(guard);
            self.world.note(format_args!("{label} holds {} under {}", belief.name, belief.token));
            let beliefs = &mut self.world.journal().beliefs;
            beliefs.push(belief);
            beliefs.len() - 1
        };
        guards.iter().map(place).collect()
    }

    /// Records the end of beliefs: now, or at the deadline if that was earlier.
    pub(crate) fn end_beliefs(&self, beliefs: &[usize], guards: &[LockGuard]) {
        for (place, guard) in beliefs.iter().zip(guards) {
            let clock = &self.host().clock;
            let overdue = clock.lasting(clock.now().since(guard.deadline()));
            let to = self.world.now().saturating_sub(overdue);
            let belief = &mut self.world.journal().beliefs[*place];
            belief.to = to.max(belief.from);
        }
    }

    async fn use_it(&self, guard: &MultiGuard, step: &Step) {
        if let (Use::Write, [only], false) = (step.does, guard.guards(), self.shares_holds())
            && let Some(register) = self.register(only)
        {
            let slow = step.held_for / 2 + Duration::from_millis(1);
            register.increment(&self.world, only.token(), slow).await;
        }
        let was_held = guard.is_held();
        let use_it = async {
            sleep(step.held_for / 2).await;
            if let (Use::Extend, Some(first)) = (step.does, guard.guards().first()) {
                let limit = Some(self.host().request_timeout);
                let _ = self.bounded("extend", limit, first.extend(step.ttl)).await;
            }
            sleep(step.held_for / 2).await;
        };
        tokio::select! {
            biased;
            (name, _) = guard.lost(), if was_held => self.judge_loss(guard, &name),
            () = use_it => {}
        }
    }

    fn shares_holds(&self) -> bool {
        self.world.plan.specialty == Specialty::Reentrant
    }

    fn register(&self, guard: &LockGuard) -> Option<&Register> {
        let is_exclusive = guard.kind() == lock_core::Kind::Exclusive;
        let place = ["a", "b"].iter().position(|name| *name == guard.name().as_str());
        place.filter(|_| is_exclusive).map(|place| &self.registers[place])
    }

    /// C9: a loss is reported in time.
    fn judge_loss(&self, guard: &MultiGuard, name: &LockName) {
        self.world.note(format_args!("{name} is lost"));
        let lost = guard.guards().iter().find(|guard| guard.name() == name);
        let Some(lost) = lost else { return };
        let late = self.host().clock.now().since(lost.deadline());
        if late > TOLD_WITHIN {
            self.world.accuse("C9", format_args!("the loss of {name} was told {late:?} late"));
        }
    }

    /// C17: a call returns in time.
    pub(crate) async fn bounded<T>(
        &self,
        call: &str,
        limit: Option<Duration>,
        answer: impl Future<Output = T>,
    ) -> T {
        let began = self.world.now();
        self.world.journal().calls += 1;
        let answer = answer.await;
        let took = self.world.now() - began;
        if limit.is_some_and(|limit| took > limit + GRACE) {
            self.world.accuse("C17", format_args!("{call} took {took:?}, and not {limit:?}"));
        }
        answer
    }
}

/// Returns the guard if it is the only one, otherwise all guards.
fn only_one(guard: MultiGuard) -> (Option<LockGuard>, Vec<LockGuard>) {
    let mut guards = guard.into_guards();
    let last = if guards.len() == 1 { guards.pop() } else { None };
    (last, guards)
}

/// Returns the answer, unless the task leaves before.
async fn leave<T>(leaves: Leaves, answer: impl Future<Output = T>) -> Option<T> {
    match leaves {
        Leaves::Never => Some(answer.await),
        Leaves::After(span) => timeout(span, answer).await.ok(),
        Leaves::AfterPolls(count) => {
            let (mut answer, mut polls) = (pin!(answer), 0);
            poll_fn(|context| {
                polls += 1;
                if polls > count {
                    return Poll::Ready(None);
                }
                answer.as_mut().poll(context).map(Some)
            })
            .await
        }
    }
}
