//! Compares random histories of one lock with the specification.

use crate::FencingToken;
use crate::backend::DistributedLockExt;
use futures_util::FutureExt;
use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy};
use proptest::prop_oneof;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::specification::{Asked, Specification, StepAnswer};
use super::*;
use crate::backend::{Grant, WaiterEvent, WaiterEvents};
use crate::model::{FakeClock, Kind, Label, Permits, Ttl};

/// Number of clients in a history.
const MANY: usize = 7;

/// Number of histories, and length of the longest.
const HISTORIES: u32 = 1000;
const LONGEST: usize = 40;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// True if the request waits.
    Ask(usize, bool),
    /// Extends the hold that the client had last.
    Extend(usize),
    Release(usize),
    Withdraw(usize),
    /// The client goes without a release.
    Leave(usize),
    Evict(usize),
    EvictAll,
    /// So many milliseconds pass.
    Pass(u64),
}

fn one_of(taken: u16, of: u16) -> Kind {
    Kind::OneOf(Permits::new(taken, of).expect("permits"))
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        2 => Just(Kind::Exclusive),
        4 => Just(Kind::Shared),
        4 => Just(one_of(1, 3)),
        2 => Just(one_of(2, 3)),
        2 => Just(one_of(1, 2)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let who = || 0..MANY;
    prop_oneof![
        12 => (who(), weighted(0.8)).prop_map(|(who, waits)| Step::Ask(who, waits)),
        2 => who().prop_map(Step::Extend),
        6 => who().prop_map(Step::Release),
        1 => who().prop_map(Step::Withdraw),
        1 => who().prop_map(Step::Leave),
        1 => who().prop_map(Step::Evict),
        1 => Just(Step::EvictAll),
        4 => (1..40_u64).prop_map(Step::Pass),
    ]
}

#[test]
fn c34_every_history_comes_to_what_the_specification_says() {
    let config = Config { cases: HISTORIES, failure_persistence: None, ..Config::default() };
    let histories = (vec((kind(), 10..60_u64), MANY), vec(step(), 1..=LONGEST));
    let outcome = TestRunner::new(config).run(&histories, |(asked, steps)| {
        let mut run = Run::new(&asked);
        for (number, step) in steps.into_iter().enumerate() {
            let (seen, expected) = run.take(step);
            if seen != expected {
                let told =
                    format!("step {number}, {step:?}, came to {seen:#?}\n not {expected:#?}");
                return Err(TestCaseError::fail(told));
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Result of a step: the answer, the news for each client, and the lock as observers see it.
#[derive(Debug, PartialEq)]
struct StepSeen {
    answer: StepAnswer,
    /// Grants to waiters: the client, the number of the grant, and its slots.
    told: Vec<(usize, usize, Vec<u16>)>,
    /// Each holder's client, kind, slots, grant, and remaining milliseconds.
    holders: Vec<(usize, Kind, Vec<u16>, usize, u64)>,
    waiters: usize,
    /// The numbers of permits that holders and waiters count.
    numbers: Vec<u16>,
}

/// One lock of the memory backend in virtual time, with its specification.
struct Run {
    clock: Arc<FakeClock>,
    backend: MemoryBackend,
    claims: Vec<Claim>,
    waiters: Vec<(WaiterHandle, Option<WaiterEvents>)>,
    /// The tokens of all grants, in their order.
    tokens: Vec<FencingToken>,
    /// Last grant of each client before the step.
    last: Vec<usize>,
    asked: Vec<usize>,
    specification: Specification,
}

impl Run {
    fn new(asked: &[(Kind, u64)]) -> Self {
        let clock = Arc::new(FakeClock::new());
        let claim = |&(kind, ttl): &(Kind, u64)| Claim {
            name: LockName::new("a").expect("a name"),
            owner: OwnerId::random(),
            ttl: Ttl::new(Duration::from_millis(ttl)).expect("a TTL"),
            label: Label::default(),
            kind,
        };
        let waiters = asked.iter().map(|_| WaiterHandle::channel());
        Self {
            backend: MemoryBackend::with_clock(clock.clone()),
            clock,
            claims: asked.iter().map(claim).collect(),
            waiters: waiters.map(|(handle, events)| (handle, Some(events))).collect(),
            tokens: Vec::new(),
            last: vec![usize::MAX; asked.len()],
            asked: Vec::new(),
            specification: Specification::default(),
        }
    }

    /// Returns the result of the step, and the expected result.
    fn take(&mut self, step: Step) -> (StepSeen, StepSeen) {
        let (answer, expected) = (self.made(step), self.specified(step));
        let (told, holders, state) = (self.told(), self.holders(), self.state());
        let (waiters, numbers) = (state.waiters.expect("it knows") as usize, state.permits);
        (StepSeen { answer, told, holders, waiters, numbers }, expected)
    }

    fn specified(&mut self, step: Step) -> StepSeen {
        let (specification, claims) = (&mut self.specification, &self.claims);
        let ttl = |who: usize| claims[who].ttl.as_duration().as_millis() as u64;
        let answer = match step {
            Step::Ask(who, waits) => {
                specification.ask(Asked { who, kind: claims[who].kind, ttl: ttl(who) }, waits)
            }
            Step::Extend(who) => specification.extend(who, self.asked[who], ttl(who)),
            Step::Release(who) => {
                StepAnswer::Done(!specification.end(|holder| holder == who).is_empty())
            }
            Step::Withdraw(who) => specification.withdraw(who),
            Step::Leave(who) => specification.leave(who),
            Step::Evict(who) => StepAnswer::Evicted(specification.end(|holder| holder == who)),
            Step::EvictAll => StepAnswer::Evicted(specification.end(|_| true)),
            Step::Pass(millis) => specification.pass(millis),
        };
        let now = specification.now;
        let live = specification.holders.iter().filter(|hold| hold.ends > now);
        let holders = live
            .map(|hold| (hold.who, hold.kind, hold.slots.clone(), hold.number, hold.ends - now));
        let (holders, waiters) = (holders.collect(), specification.queue.len());
        let mut told = std::mem::take(&mut specification.told);
        told.sort_unstable();
        let numbers = specification.numbers();
        StepSeen { answer, told, holders, waiters, numbers }
    }

    fn made(&mut self, step: Step) -> StepAnswer {
        self.asked.clone_from(&self.last);
        let (backend, clock) = (self.backend.clone(), self.clock.clone());
        let claim = |who: usize| self.claims[who].clone();
        let evict = |whom| now(backend.evict(&claim(0).name, &whom)).expect("an answer");
        match step {
            Step::Ask(who, waits) => self.ask(who, waits),
            Step::Extend(who) => {
                let Claim { name, owner, ttl, .. } = claim(who);
                let token = self.tokens.get(self.last[who]).copied().unwrap_or(FencingToken::MAX);
                let extension = now(backend.extend_one(&Renewal { name, owner, token, ttl }));
                StepAnswer::Done(extension.expect("an answer") != Extension::Lost)
            }
            Step::Release(who) => {
                let released = now(backend.release(&claim(who).name, claim(who).owner));
                StepAnswer::Done(released.expect("an answer") == Release::Released)
            }
            Step::Withdraw(who) => {
                now(backend.withdraw(&claim(who).name, &[claim(who).owner])).expect("an answer");
                StepAnswer::Nothing
            }
            Step::Leave(who) => {
                self.waiters[who].1 = None;
                StepAnswer::Nothing
            }
            Step::Evict(who) => self.evicted(&evict(Whom::Owner(claim(who).owner.to_string()))),
            Step::EvictAll => self.evicted(&evict(Whom::All)),
            Step::Pass(millis) => {
                clock.advance(Duration::from_millis(millis));
                StepAnswer::Nothing
            }
        }
    }

    fn ask(&mut self, who: usize, waits: bool) -> StepAnswer {
        let waiter = waits.then_some(&self.waiters[who].0);
        match now(self.backend.acquire(&self.claims[who], waiter)) {
            Ok(Attempt::Granted(grant)) => {
                StepAnswer::Granted(self.granted(who, &grant), grant.slots.as_slice().to_vec())
            }
            Ok(Attempt::Busy(seen)) => {
                let first = seen.first_waiter.map_or(0, |first| first.0);
                StepAnswer::Busy(seen.position.map(|before| before as usize), seen.permits, first)
            }
            Err(_) => StepAnswer::Refused,
        }
    }

    fn told(&mut self) -> Vec<(usize, usize, Vec<u16>)> {
        let events = |(_, events): &(WaiterHandle, Option<WaiterEvents>)| {
            events.as_ref().and_then(|events| events.next().now_or_never())
        };
        let events: Vec<_> = self.waiters.iter().map(events).collect();
        let told = events.into_iter().enumerate().filter_map(|(who, event)| match event? {
            WaiterEvent::TryAgain => panic!("this store grants to its waiters"),
            WaiterEvent::Granted(grant) => {
                Some((who, self.granted(who, &grant), grant.slots.as_slice().to_vec()))
            }
        });
        told.collect()
    }

    fn holders(&mut self) -> Vec<(usize, Kind, Vec<u16>, usize, u64)> {
        let state = self.state();
        let seen = state.holders.iter().map(|holder| {
            let number = self.number(holder.token.expect("one of ours"));
            let left = holder.ttl_left.expect("a TTL").as_millis() as u64;
            (self.who(holder), holder.kind, holder.slots.as_slice().to_vec(), number, left)
        });
        seen.collect()
    }

    fn state(&self) -> LockState {
        now(self.backend.inspect(&self.claims[0].name)).expect("an answer")
    }

    fn evicted(&self, holders: &[Holder]) -> StepAnswer {
        StepAnswer::Evicted(holders.iter().map(|holder| self.who(holder)).collect())
    }

    fn who(&self, holder: &Holder) -> usize {
        let is_it = |claim: &Claim| holder.owner.as_ref() == Some(&claim.owner.to_string());
        self.claims.iter().position(is_it).expect("one of ours")
    }

    /// Notes a grant, and returns its number.
    fn granted(&mut self, who: usize, grant: &Grant) -> usize {
        self.last[who] = self.number(grant.token);
        self.last[who]
    }

    /// C22, C35: the token of each grant is greater than all before. So the new tokens of a step, which all belong to
    /// holders, are in the order of the grants.
    fn number(&mut self, token: FencingToken) -> usize {
        for holder in self.state().holders {
            let new = holder.token.expect("one of ours");
            if self.tokens.last().is_none_or(|last| *last < new) {
                self.tokens.push(new);
            }
        }
        self.tokens.iter().position(|known| *known == token).expect("it grew")
    }
}

fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("this store makes nobody wait")
}
