//! Judges a world by its journal: exclusion, tokens, the order of the queue, and runs.

use std::time::Duration;

use lock_core::{FencingToken, Kind};

use crate::world::{Belief, Journal, Run, Served, ServedStep, World};

/// Judges the whole world.
pub(crate) fn judge(world: &World) {
    let broken = {
        let journal = world.journal();
        let beliefs = without_evicted(&journal);
        let is_clock_set = !world.plan.server_steps.is_empty();
        let mut broken = unique(&journal.beliefs);
        if world.plan.keeps_ttls() {
            broken.extend(exclusion(&beliefs));
            broken.extend(tokens(&journal.beliefs));
        }
        broken.extend(records(&journal.runs));
        if world.plan.is_calm {
            broken.extend(fairness(&journal.served));
        }
        // An eviction or a clock that was set lets others in earlier.
        if !is_clock_set && !journal.is_once_evicted {
            broken.extend(kept_out(&journal.runs));
        }
        broken
    };
    broken.into_iter().for_each(|(clause, what)| world.accuse(clause, what));
}

type Broken = Vec<(&'static str, String)>;

/// Returns the beliefs without their part after an eviction: a hold that was evicted before its holder believed
/// in it leaves none.
fn without_evicted(journal: &Journal) -> Vec<Belief> {
    let mut beliefs = journal.beliefs.clone();
    for belief in &mut beliefs {
        let granted = granted_as(&journal.served, belief);
        for (name, evicted, at) in &journal.evictions {
            if belief.name == *name && granted == Some(*evicted) {
                belief.to = belief.to.min(*at);
            }
        }
    }
    beliefs.retain(|belief| belief.from < belief.to);
    beliefs
}

/// Returns the token of the server's grant: the believed one, or the one before it if the hold was passed on.
fn granted_as(served: &[Served], belief: &Belief) -> Option<FencingToken> {
    let of_lock = served.iter().filter(|served| served.name == belief.name);
    let grants = of_lock.filter_map(|served| match served.step {
        ServedStep::Granted(token) if token <= belief.token => Some(token),
        _ => None,
    });
    grants.max()
}

/// P2, S3: no two holds that exclude each other are believed in at the same time.
fn exclusion(beliefs: &[Belief]) -> Broken {
    let overlap = |one: &&Belief, two: &Belief| {
        one.name == two.name && one.from < two.to && two.from < one.to && exclude(one, two)
    };
    let pairs = beliefs.iter().enumerate().flat_map(|(place, two)| {
        beliefs[..place].iter().filter(move |one| overlap(one, two)).map(move |one| (one, two))
    });
    pairs.map(|(one, two)| ("P2", format!("both believe: {one:?} and {two:?}"))).collect()
}

/// C33, C36.
fn exclude(one: &Belief, two: &Belief) -> bool {
    if one.is_shared_with(two) {
        return false;
    }
    match (one.kind, two.kind) {
        (Kind::Shared, Kind::Shared) => false,
        (Kind::OneOf(left), Kind::OneOf(right)) => {
            left.of() != right.of() || one.slots.iter().any(|slot| two.slots.contains(slot))
        }
        _ => true,
    }
}

/// S2: tokens are unique.
fn unique(beliefs: &[Belief]) -> Broken {
    let mut broken = Vec::new();
    for (place, one) in beliefs.iter().enumerate() {
        let same = beliefs[place + 1..]
            .iter()
            .filter(|two| one.name == two.name && one.token == two.token && one.label != two.label);
        let same = same.filter(|two| !one.is_shared_with(two));
        broken.extend(same.map(|two| ("S2", format!("one token: {one:?} and {two:?}"))));
    }
    broken
}

/// S2: tokens grow in the order of real time.
fn tokens(beliefs: &[Belief]) -> Broken {
    let mut broken = Vec::new();
    for (place, one) in beliefs.iter().enumerate() {
        for two in &beliefs[place + 1..] {
            // A lease that is handed on keeps its label and its token.
            if one.name != two.name || one.label == two.label {
                continue;
            }
            let (first, second) = if one.from <= two.from { (one, two) } else { (two, one) };
            // Among holders beside each other, a later claim may take the place of one that was granted earlier.
            let in_order = first.token < second.token || !exclude(first, second);
            if !in_order && first.from <= hold_asked(beliefs, second) {
                broken.push(("S2", format!("tokens: {first:?} before {second:?}")));
            }
        }
    }
    broken
}

/// Returns when the hold of a guard was asked for. A guard may join the hold long after, even one that was evicted, until
/// its machine learns of it (C43).
fn hold_asked(beliefs: &[Belief], guard: &Belief) -> Duration {
    let shared = |other: &&Belief| other.name == guard.name && guard.is_shared_with(other);
    beliefs.iter().filter(shared).map(|other| other.asked).fold(guard.asked, Duration::min)
}

/// C27, C34: earlier waiters are granted earlier. Applies only if no waiter loses its place by silence.
fn fairness(served: &[Served]) -> Broken {
    let mut broken = Vec::new();
    let mut waiting: Vec<&Served> = Vec::new();
    for step in served {
        let is_theirs = |waiter: &Served| waiter.name == step.name && waiter.owner == step.owner;
        let place = waiting.iter().position(|waiter| is_theirs(waiter));
        match (step.step, place) {
            (ServedStep::Queued, None) => waiting.push(step),
            (ServedStep::Queued, Some(_)) | (_, None) => {}
            (ServedStep::Granted(token), Some(place)) => {
                // Grants that were pushed at the same time are noted in any order, so earlier waiters may follow.
                let overtaken = waiting[..place].iter().find(|before| {
                    before.name == step.name && !is_granted_before(served, before, token)
                });
                if let Some(before) = overtaken {
                    broken.push(("C34", format!("{step:?} was served before {before:?}")));
                }
                waiting.remove(place);
            }
            (ServedStep::Gone, Some(place)) => drop(waiting.remove(place)),
        }
    }
    broken
}

/// Returns true if a waiter was granted a lower token, or left at that time.
fn is_granted_before(served: &[Served], waiter: &Served, token: FencingToken) -> bool {
    let theirs =
        served.iter().filter(|step| step.name == waiter.name && step.owner == waiter.owner);
    let mut after = theirs.skip_while(|step| step.at <= waiter.at);
    after.any(|step| matches!(step.step, ServedStep::Granted(theirs) if theirs < token))
}

/// C42: a recorded run does not run again.
fn records(runs: &[Run]) -> Broken {
    let again = |one: &Run, two: &Run| {
        let since = one.recorded.is_some_and(|recorded| recorded < two.began);
        since && one.occurrence == two.occurrence
    };
    pairs(runs, again).map(|(one, two)| ("C42", format!("{two:?} ran after {one:?}"))).collect()
}

/// C41: no other run starts within the span after a start.
fn kept_out(runs: &[Run]) -> Broken {
    let within = |one: &Run, two: &Run| {
        let span = one.at_least.unwrap_or_default().mul_f64(0.99);
        one.began < two.began && two.began < one.asked + span
    };
    pairs(runs, within).map(|(one, two)| ("C41", format!("{two:?} began within {one:?}"))).collect()
}

fn pairs(
    runs: &[Run],
    are_wrong: impl Fn(&Run, &Run) -> bool,
) -> impl Iterator<Item = (&Run, &Run)> {
    let all = runs.iter().flat_map(move |one| runs.iter().map(move |two| (one, two)));
    all.filter(move |(one, two)| one.label != two.label && are_wrong(one, two))
}
