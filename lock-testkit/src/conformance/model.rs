//! The memory backend as the model of all others: random histories must come to the same.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::harness::Harness;
use super::steps::{claim, fresh_name, renewal};
use lock_core::backend::{Attempt, Claim, Extension, Release};
use lock_core::{
    BackendError, DistributedLock, FencingToken, Holder, Kind, Kinds, LockName, MemoryBackend,
    OwnerId, Permits, Slots, Whom,
};

/// How many claims take part, half of them for each of two locks.
const CLAIMS: usize = 8;

/// How many histories are tried, and how long the longest is.
const HISTORIES: u32 = 24;
const LONGEST: usize = 24;

/// How often a request is repeated that has no answer, and after which pause.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// No lease of a history ends by itself.
const TTL: Duration = Duration::from_secs(600);

/// One step of a history: what happens to a claim, or to its lock.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Acquire(usize),
    /// By the token of its last grant.
    Extend(usize),
    Release(usize),
    Withdraw(usize),
    /// The hold of this claim.
    Evict(usize),
    /// All holds of the lock.
    EvictAll(usize),
    Inspect(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let claim = || any::<proptest::sample::Index>().prop_map(|index| index.index(CLAIMS));
    prop_oneof![
        6 => claim().prop_map(Step::Acquire),
        3 => claim().prop_map(Step::Extend),
        4 => claim().prop_map(Step::Release),
        1 => claim().prop_map(Step::Withdraw),
        1 => claim().prop_map(Step::Evict),
        1 => claim().prop_map(Step::EvictAll),
        2 => claim().prop_map(Step::Inspect),
        1 => Just(Step::Inspect(0)),
    ]
}

/// The kinds of the claims. A backend that has not got a kind is asked for exclusive holds instead.
fn kind(has: Kinds) -> impl Strategy<Value = Kind> {
    let one_of = |taken, of| Just(Kind::OneOf(Permits::new(taken, of).expect("permits")));
    let kinds = prop_oneof![
        3 => Just(Kind::Exclusive),
        4 => Just(Kind::Shared),
        4 => one_of(1, 3),
        2 => one_of(2, 3),
        1 => one_of(1, 2),
    ];
    kinds.prop_map(move |kind| if has.has(kind) { kind } else { Kind::Exclusive })
}

/// C10, C14, C16, C19, C22, C33, C35, C36, C38: any history of requests has the same outcomes as on the memory
/// backend, which is the specification.
pub async fn every_history_agrees_with_the_model(harness: &dyn Harness) {
    let (backend, handle) = (harness.connect().await, Handle::current());
    let config = Config { cases: HISTORIES, failure_persistence: None, ..Config::default() };
    let histories = (vec(kind(backend.capabilities().kinds), CLAIMS), vec(step(), 1..=LONGEST));
    let outcome = block_in_place(|| {
        TestRunner::new(config).run(&histories, |(kinds, history)| {
            handle.block_on(async {
                let expected = Run::of(&MemoryBackend::new(), &kinds).play(&history).await;
                let seen = Run::of(&*backend, &kinds).play(&history).await;
                match seen == expected {
                    true => Ok(()),
                    false => Err(TestCaseError::fail(differs(&seen, &expected))),
                }
            })
        })
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// The first step that came to something else.
fn differs(seen: &[(Step, Outcome)], expected: &[(Step, Outcome)]) -> String {
    let number = seen.iter().zip(expected).take_while(|(seen, expected)| seen == expected).count();
    let (step, ours) = &seen[number];
    let (_, model) = &expected[number];
    format!(
        "step {number} ({step:?}) came to {ours:?}, and is to come to {model:?}, as on the memory \
         backend, after {:?}",
        &expected[..number]
    )
}

/// What a step came to, with nothing in it that differs from run to run: a token is the number of its
/// grant.
#[derive(Debug, PartialEq)]
enum Outcome {
    Granted(usize, Slots),
    NotGranted,
    /// The lock is held as one of so many.
    Conflict(u16),
    Extended,
    Lost,
    Released,
    NotHeld,
    Withdrawn,
    /// Those who hold the lock, or who held it until they were evicted, by the numbers of their grants.
    Held(Vec<(usize, Kind, Slots)>),
}

/// One history on one backend.
struct Run<'a> {
    backend: &'a dyn DistributedLock,
    claims: Vec<Claim>,
    /// The tokens of each lock, in the order of their grants.
    granted: HashMap<LockName, Vec<FencingToken>>,
    /// The last token of each claim.
    last: HashMap<OwnerId, FencingToken>,
    /// The locks whose last holders were evicted.
    evicted: HashSet<LockName>,
}

impl<'a> Run<'a> {
    fn of(backend: &'a dyn DistributedLock, kinds: &[Kind]) -> Self {
        let names = [fresh_name(), fresh_name()];
        let claim_of = |(i, kind): (usize, &Kind)| {
            let mut claim = claim(&names[i % names.len()], TTL);
            claim.kind = *kind;
            claim
        };
        let claims = kinds.iter().enumerate().map(claim_of).collect();
        let (granted, last, evicted) = Default::default();
        Self { backend, claims, granted, last, evicted }
    }

    async fn play(mut self, history: &[Step]) -> Vec<(Step, Outcome)> {
        let mut outcomes = Vec::new();
        for step in history {
            outcomes.push((*step, self.take(*step).await));
        }
        for claim in &self.claims {
            self.backend.withdraw(&claim.name, claim.owner).await.expect("an answer");
        }
        outcomes
    }

    async fn take(&mut self, step: Step) -> Outcome {
        match step {
            Step::Acquire(i) => self.acquire(&self.claims[i].clone()).await,
            Step::Extend(i) => self.extend(&self.claims[i]).await,
            Step::Release(i) => self.release(&self.claims[i]).await,
            Step::Withdraw(i) => self.withdraw(&self.claims[i]).await,
            Step::Evict(i) => {
                let owner = self.claims[i].owner.to_string();
                self.evict(i, &Whom::Owner(owner)).await
            }
            Step::EvictAll(i) => self.evict(i, &Whom::All).await,
            Step::Inspect(i) => {
                let name = &self.claims[i].name;
                let state = self.backend.inspect(name).await.expect("an answer");
                self.held(name, &state.holders)
            }
        }
    }

    async fn evict(&mut self, i: usize, whom: &Whom) -> Outcome {
        let name = self.claims[i].name.clone();
        let evicted = self.backend.evict(&name, whom).await.expect("an answer");
        let outcome = self.held(&name, &evicted);
        if *whom == Whom::All || evicted.iter().any(|holder| holder.kind == Kind::Exclusive) {
            self.evicted.insert(name);
        }
        outcome
    }

    /// A claim that was withdrawn may be refused with an error; it is not granted in any case.
    async fn acquire(&mut self, claim: &Claim) -> Outcome {
        match self.answer(claim).await {
            Ok(Attempt::Granted(grant)) => {
                self.last.insert(claim.owner, grant.token);
                Outcome::Granted(self.number(&claim.name, grant.token), grant.slots)
            }
            Ok(Attempt::Busy(_)) => Outcome::NotGranted,
            Err(error) => {
                let held = error.permits().map(|(_, held)| Outcome::Conflict(held));
                held.unwrap_or(Outcome::NotGranted)
            }
        }
    }

    /// A passing failure is no answer: a client asks again, and so do we. An eviction may take a moment
    /// to be seen, where it ends the holder's session.
    async fn answer(&mut self, claim: &Claim) -> Result<Attempt, BackendError> {
        let was_evicted = self.evicted.remove(&claim.name);
        let mut answer = self.backend.try_acquire(claim, None).await;
        for _ in 0..TRIES {
            match &answer {
                Err(error) if error.is_transient() => {}
                Ok(Attempt::Busy(_)) if was_evicted => {}
                _ => break,
            }
            sleep(PAUSE).await;
            answer = self.backend.try_acquire(claim, None).await;
        }
        answer
    }

    async fn extend(&self, claim: &Claim) -> Outcome {
        let Some(token) = self.last.get(&claim.owner) else { return Outcome::Lost };
        match self.backend.extend(&renewal(claim, *token)).await.expect("an answer") {
            Extension::Extended(_) => Outcome::Extended,
            Extension::Lost => Outcome::Lost,
        }
    }

    async fn release(&self, claim: &Claim) -> Outcome {
        match self.backend.release(&claim.name, claim.owner).await.expect("an answer") {
            Release::Released => Outcome::Released,
            Release::NotHeld => Outcome::NotHeld,
        }
    }

    async fn withdraw(&self, claim: &Claim) -> Outcome {
        self.backend.withdraw(&claim.name, claim.owner).await.expect("an answer");
        Outcome::Withdrawn
    }

    /// The number of the grant that has this token: a new token is greater than all before (C22).
    fn number(&mut self, name: &LockName, token: FencingToken) -> usize {
        let granted = self.granted.entry(name.clone()).or_default();
        granted.iter().position(|known| *known == token).unwrap_or_else(|| {
            let grows = granted.last().is_none_or(|last| *last < token);
            assert!(grows, "each grant is to have a greater token: {token} after {granted:?}");
            granted.push(token);
            granted.len() - 1
        })
    }

    fn held(&self, name: &LockName, holders: &[Holder]) -> Outcome {
        let number = |token: Option<FencingToken>| {
            let granted = self.granted.get(name)?;
            granted.iter().position(|known| Some(*known) == token)
        };
        let held = holders.iter().map(|holder| {
            let number = number(holder.token).expect("a token that was granted");
            (number, holder.kind, holder.slots.clone())
        });
        Outcome::Held(held.collect())
    }
}
