//! Histories of the model.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy};
use proptest::prop_oneof;

use lock_core::{Capabilities, DistributedLock, Kind, Kinds, Order, Permits};

/// Number of claims, half of them for each of two locks.
const CLAIMS: usize = 8;

/// Length of the longest history in steps. It takes less time than a withdrawal is remembered.
const LONGEST: usize = 24;
const DEATHS: usize = 3;

/// The request of each claim, and the steps that follow.
#[derive(Clone, Debug)]
pub(super) struct History {
    pub(super) kinds: Vec<Kind>,
    pub(super) steps: Vec<Step>,
}

/// One step of a history: an event of a claim, or of its lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    Ask(usize),
    /// Waits in the queue, if it is not granted.
    Wait(usize),
    /// Uses the token of its last grant.
    Extend(usize),
    Release(usize),
    /// Withdraws the hold, the wait, or the later requests of the claim.
    Withdraw(usize),
    /// Evicts the hold of this claim.
    Evict(usize),
    /// Evicts all holds of the lock.
    EvictAll(usize),
    /// Stops renewing one of the holds, counted round, until it expires.
    Die(usize),
    Inspect(usize),
}

impl Step {
    /// Returns the claim of the step.
    pub(super) fn claim(self) -> usize {
        match self {
            Self::Ask(i) | Self::Wait(i) | Self::Extend(i) | Self::Release(i) => i,
            Self::Withdraw(i) | Self::Evict(i) => i,
            Self::EvictAll(i) | Self::Die(i) | Self::Inspect(i) => i,
        }
    }
}

/// Uses the backend only to ask for its abilities.
pub(super) fn histories(can: &dyn DistributedLock) -> impl Strategy<Value = History> {
    let Capabilities { kinds, order, .. } = can.capabilities();
    let in_order = order == Order::Fifo;
    let drawn = (vec(kind(kinds), CLAIMS), vec(step(), 1..=LONGEST));
    drawn.prop_map(move |(kinds, steps)| {
        let mut deaths = 0..DEATHS;
        let steps = steps.into_iter().map(|step| possible(step, in_order));
        let steps = steps.filter(|step| !matches!(step, Step::Die(_)) || deaths.next().is_some());
        History { steps: steps.collect(), kinds }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let claim = || 0..CLAIMS;
    prop_oneof![
        4 => claim().prop_map(Step::Ask),
        6 => claim().prop_map(Step::Wait),
        3 => claim().prop_map(Step::Extend),
        4 => claim().prop_map(Step::Release),
        2 => claim().prop_map(Step::Withdraw),
        1 => claim().prop_map(Step::Evict),
        1 => claim().prop_map(Step::EvictAll),
        3 => claim().prop_map(Step::Die),
        2 => claim().prop_map(Step::Inspect),
    ]
}

/// Replaces impossible steps. On a backend without an order of waiters nobody waits.
fn possible(step: Step, in_order: bool) -> Step {
    match step {
        Step::Wait(i) if !in_order => Step::Ask(i),
        step => step,
    }
}

/// A backend without a kind is asked for exclusive holds instead.
fn kind(has: Kinds) -> impl Strategy<Value = Kind> {
    let one_of = |taken, of| Just(Kind::OneOf(Permits::new(taken, of).expect("permits")));
    let kinds = prop_oneof![
        4 => Just(Kind::Exclusive),
        4 => Just(Kind::Shared),
        4 => one_of(1, 3),
        2 => one_of(2, 3),
        2 => one_of(1, 2),
    ];
    kinds.prop_map(move |kind| if has.has(kind) { kind } else { Kind::Exclusive })
}
