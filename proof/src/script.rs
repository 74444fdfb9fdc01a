//! The script of a task: its requests, the use of each hold, and the end of each hold.

use std::time::Duration;

use crate::rng::Rng;

/// One hold of a task, from the pause before it to its end.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) pause: Duration,
    pub(crate) ask: Ask,
    pub(crate) ttl: Duration,
    /// Longest wait; `None` is without end.
    pub(crate) wait: Option<Duration>,
    pub(crate) leaves: Leaves,
    pub(crate) held_for: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) does: Use,
    pub(crate) end: End,
}

#[derive(Clone, Debug)]
pub(crate) enum Ask {
    One(&'static str, Sort),
    /// Several at once (C39).
    All(Vec<&'static str>),
    /// An election (C40).
    Campaign,
    /// A run once (C41, C42): the occurrence, and the time for which it keeps others out.
    Once(u64, Option<Duration>),
    /// An eviction, of which the holder is not told.
    Evict(&'static str),
}

/// The kind of a hold, with its numbers of permits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sort {
    Exclusive,
    Shared,
    Permits(u16, u16),
}

/// Time at which a task drops an acquisition.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Leaves {
    Never,
    After(Duration),
    AfterPolls(u64),
}

/// Use of a hold by its task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    Nothing,
    Extend,
    /// Increments a register behind a fence (C25), and ignores a loss meanwhile.
    Write,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Release,
    Confirm,
    Drop,
    /// Hands the lease on to this machine.
    HandOn(usize),
}

pub(crate) const NAMES: [&str; 5] = ["a", "b", "pool", "election", "once"];

/// Returns the steps of one task.
pub(crate) fn steps(rng: &mut Rng, machines: usize) -> Vec<Step> {
    (0..1 + rng.below(6)).map(|_| step(rng, machines)).collect()
}

fn step(rng: &mut Rng, machines: usize) -> Step {
    let millis = Duration::from_millis;
    let ttl = rng.pick(&[30, 100, 300, 1000, 3000, 60_000]);
    let (pause, most) = (rng.pick(&[1, 1, 20, 300, 1500]), rng.pick(&[2, 10, 50, 400, 2000]));
    Step {
        pause: rng.span(millis(pause)),
        ask: ask(rng),
        ttl: millis(ttl),
        wait: rng.pick(&[Some(0), Some(20), Some(300), Some(3000), None, None]).map(millis),
        leaves: leaves(rng),
        held_for: rng.span(millis(most)),
        max_hold: rng.one_in(8).then(|| rng.span(millis(500)) + millis(1)),
        does: rng.pick(&[Use::Nothing, Use::Extend, Use::Write, Use::Write]),
        end: end(rng, machines),
    }
}

fn ask(rng: &mut Rng) -> Ask {
    match rng.below(20) {
        0..8 => Ask::One("a", Sort::Exclusive),
        8..10 => Ask::One("b", Sort::Exclusive),
        10 => Ask::One(rng.pick(&["a", "b", "pool"]), Sort::Shared),
        11 => Ask::One("b", Sort::Shared),
        12..15 => Ask::One("pool", Sort::Permits(1 + rng.below(2) as u16, 3)),
        15 => Ask::One("pool", Sort::Permits(1, 3 - rng.below(2) as u16)),
        16 => Ask::All(rng.pick(&[&["a", "b"][..], &["b", "pool"], &["pool", "b", "a"]]).to_vec()),
        17 => Ask::Campaign,
        18 => {
            let span = Duration::from_millis(20 + rng.below(1000));
            Ask::Once(rng.below(2), rng.one_in(2).then_some(span))
        }
        _ => match rng.below(3) {
            0 => Ask::Evict(rng.pick(&NAMES)),
            _ => Ask::Campaign,
        },
    }
}

fn leaves(rng: &mut Rng) -> Leaves {
    match rng.below(8) {
        0 => Leaves::After(rng.span(Duration::from_millis(100))),
        1 => Leaves::AfterPolls(rng.below(12)),
        _ => Leaves::Never,
    }
}

fn end(rng: &mut Rng, machines: usize) -> End {
    match rng.below(10) {
        0..6 => End::Release,
        6 => End::Confirm,
        7 | 8 => End::Drop,
        _ => End::HandOn(rng.below(machines as u64) as usize),
    }
}
