//! Searches of a model: all states, the first of them, random walks, and one way.

use std::collections::{HashMap, VecDeque};

use crate::rule::Kind;
use crate::state::Phase;
use crate::world::{Fault, Settings, Step};

/// A fault, and the steps that lead to it.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) fault: Fault,
    #[allow(dead_code, reason = "a failed test prints it")]
    steps: Vec<Step>,
}

/// Size of a search without a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Searched {
    pub(crate) states: usize,
    pub(crate) is_complete: bool,
}

/// Visits the first `most` states, those of the fewest steps first, and the fault with the fewest steps.
pub(crate) fn search(settings: &Settings, most: usize) -> Result<Searched, Way> {
    let mut numbers = HashMap::from([(settings.start(), 0)]);
    let mut before: Vec<Option<(usize, Step)>> = vec![None];
    let mut open = VecDeque::from([(0, settings.start())]);
    while let Some((number, state)) = open.pop_front() {
        for (step, next) in settings.steps(&state) {
            let found = before.len();
            if numbers.contains_key(&next) {
                continue;
            }
            before.push(Some((number, step)));
            if let Some(fault) = next.fault {
                return Err(Way { fault, steps: way_to(&before, found) });
            }
            numbers.insert(next.clone(), found);
            open.push_back((found, next));
        }
        if before.len() > most {
            return Ok(Searched { states: before.len(), is_complete: false });
        }
    }
    Ok(Searched { states: before.len(), is_complete: true })
}

fn way_to(before: &[Option<(usize, Step)>], mut at: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some((from, step)) = before[at] {
        steps.push(step);
        at = from;
    }
    steps.reverse();
    steps
}

/// Goes one way. Returns its fault, if there is one, or else the number of the first step that is not possible.
pub(crate) fn follow(settings: &Settings, steps: &[Step]) -> Result<(), Result<Fault, usize>> {
    let mut state = settings.start();
    for (number, step) in steps.iter().enumerate() {
        state = settings.after(&state, *step).ok_or(Err(number))?;
        if let Some(fault) = state.fault {
            return Err(Ok(fault));
        }
    }
    Ok(())
}

/// Goes `steps` steps by random ways. In each way some messages to some servers are slow, and time is quick or slow.
/// Returns the number of ways.
pub(crate) fn wander(settings: &Settings, seed: u64, steps: usize) -> Result<usize, Way> {
    let (mut random, mut gone, mut ways) = (Random(seed), 0, 0);
    while gone < steps {
        ways += 1;
        let (mut state, mut way) = (settings.start(), Vec::new());
        let (tick, slow) = ([0.3, 1.0, 3.0][random.below(3)], random.next());
        let length = [60, 150, 300][random.below(3)];
        while way.len() < length && state.holds.iter().any(|hold| hold.phase != Phase::Over) {
            let possible = settings.steps(&state);
            let weights: Vec<f64> =
                possible.iter().map(|(step, _)| weight(*step, tick, slow)).collect();
            let (step, next) = possible[random.weighted(&weights)].clone();
            way.push(step);
            if let Some(fault) = next.fault {
                return Err(Way { fault, steps: way });
            }
            state = next;
        }
        gone += way.len();
    }
    Ok(ways)
}

/// Returns the weight of a step, so that walks come far: grants, renewals and admissions are likely, and faults rare.
fn weight(step: Step, tick: f64, slow: u64) -> f64 {
    let is_slow = |kind: Kind, to: usize| slow >> (kind as usize * 5 + to) & slow >> 5 & 1 == 1;
    let patience = |kind, to| if is_slow(kind, to) { 0.03 } else { 1.0 };
    match step {
        Step::Tick => tick,
        Step::Granted(_) | Step::Extended(_) | Step::ToldLost(_) | Step::Over(_) => 20.0,
        Step::Evicted => 10.0,
        Step::Arrive(kind, _, to) => 10.0 * patience(kind, to),
        Step::ArriveUnheard(kind, _, to) => patience(kind, to),
        Step::LetIn(..) => 5.0,
        Step::Renew(_) => 4.0,
        Step::Seen(_) => 3.0,
        Step::Ask(..) => 2.0,
        Step::RoundEnds(_) => 1.0,
        Step::Restart(..) => 0.6,
        Step::Save(_) => 0.5,
        Step::Evict(_) => 0.4,
        Step::GiveUp(_) => 0.3,
        Step::Release(_) => 0.1,
    }
}

/// SplitMix64, for which every seed is good.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Returns the number of one of these, the heavier the likelier.
    fn weighted(&mut self, weights: &[f64]) -> usize {
        let all: f64 = weights.iter().sum();
        let mut left = all * (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let is_it = |weight: &f64| {
            left -= weight;
            left < 0.0
        };
        weights.iter().position(is_it).unwrap_or(0)
    }
}
