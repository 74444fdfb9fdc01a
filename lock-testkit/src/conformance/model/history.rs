//! Histories of the model.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy};
use proptest::prop_oneof;

use lock_core::{Capabilities, DistributedLock, Kind, Kinds, Order, Permits};

/// Number of claims, half of them for each of two locks.
const CLAIMS: usize = 8;

/// Length of the longest history, and of its lapse of time: a withdrawal is remembered for longer.
const LONGEST: usize = 24;
const DEATHS: usize = 3;

/// The request of each claim, and the steps that follow.
#[derive(Clone, Debug)]
pub(super) struct History {
    pub(super) kinds: Vec<Kind>,
    pub(super) steps: Vec<Step>,
}

/// One step of a history: what happens to a claim, or to its lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    Ask(usize),
    /// And waits in line, if it is not granted.
    Wait(usize),
    /// By the token of its last grant.
    Extend(usize),
    Release(usize),
    /// The hold is nobody's from now on, and goes on until it dies.
    ReleaseAfter(usize),
    /// The hold, the wait, or what may come of the claim.
    Withdraw(usize),
    /// The hold of this claim.
    Evict(usize),
    /// All holds of the lock.
    EvictAll(usize),
    /// Nobody renews one of the holds, counted round, until its time is over.
    Die(usize),
    Inspect(usize),
}

impl Step {
    /// Whose step it is.
    pub(super) fn claim(self) -> usize {
        match self {
            Self::Ask(i) | Self::Wait(i) | Self::Extend(i) | Self::Release(i) => i,
            Self::ReleaseAfter(i) | Self::Withdraw(i) | Self::Evict(i) => i,
            Self::EvictAll(i) | Self::Die(i) | Self::Inspect(i) => i,
        }
    }
}

/// Asks a backend for its abilities alone.
pub(super) fn histories(can: &dyn DistributedLock) -> impl Strategy<Value = History> {
    let Capabilities { kinds, order, .. } = can.capabilities();
    let (in_order, records_runs) = (order == Order::Fifo, can.run_records().is_some());
    let drawn = (vec(kind(kinds), CLAIMS), vec(step(), 1..=LONGEST));
    drawn.prop_map(move |(kinds, steps)| {
        let mut deaths = 0..DEATHS;
        let steps = steps.into_iter().map(|step| possible(step, in_order, records_runs, &kinds));
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
        3 => claim().prop_map(Step::ReleaseAfter),
        2 => claim().prop_map(Step::Withdraw),
        1 => claim().prop_map(Step::Evict),
        1 => claim().prop_map(Step::EvictAll),
        3 => claim().prop_map(Step::Die),
        2 => claim().prop_map(Step::Inspect),
    ]
}

/// A backend that serves its waiters in no order is asked without waiting. An exclusive hold alone outlasts
/// its work (C41).
fn possible(step: Step, in_order: bool, records_runs: bool, kinds: &[Kind]) -> Step {
    match step {
        Step::Wait(i) if !in_order => Step::Ask(i),
        Step::ReleaseAfter(i) if !records_runs || kinds[i] != Kind::Exclusive => Step::Release(i),
        step => step,
    }
}

/// A backend that has not got a kind is asked for exclusive holds instead.
fn kind(has: Kinds) -> impl Strategy<Value = Kind> {
    let one_of = |taken, of| Just(Kind::OneOf(Permits::new(taken, of).expect("permits")));
    let kinds = prop_oneof![
        4 => Just(Kind::Exclusive),
        4 => Just(Kind::Shared),
        4 => one_of(1, 3),
        2 => one_of(2, 3),
        1 => one_of(1, 2),
    ];
    kinds.prop_map(move |kind| if has.has(kind) { kind } else { Kind::Exclusive })
}
