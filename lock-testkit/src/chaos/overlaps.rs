//! S3: believed holds do not overlap, unless their kinds allow it.

use std::time::Duration;

use super::fault::EVICTED;
use super::history::{History, Hold};
use super::report::Violation;

/// Returns the overlaps that break S3, and the number of overlaps that a fault excuses: one that made the store
/// forget, at most `later` before.
pub(super) fn violations(history: &History, later: Duration) -> (Vec<Violation>, usize) {
    let (mut broken, mut excused) = (Vec::new(), 0);
    for name in history.names() {
        for (first, second) in overlaps(&history.holds_of(&name)) {
            match is_excused(history, second, later) {
                true => excused += 1,
                false => broken.push(Violation::of_two("S3", first, second, "believed beside")),
            }
        }
    }
    (broken, excused)
}

/// Returns the pairs of holds of a lock that were believed at the same time and exclude each other.
fn overlaps<'a>(holds: &[&'a Hold]) -> Vec<(&'a Hold, &'a Hold)> {
    let (mut standing, mut found): (Vec<&Hold>, _) = (Vec::new(), Vec::new());
    for hold in holds {
        standing.retain(|other| other.believed > hold.granted);
        let beside = standing.iter().filter(|other| exclude_each_other(other, hold));
        found.extend(beside.map(|other| (*other, *hold)));
        standing.push(hold);
    }
    found
}

fn exclude_each_other(one: &Hold, other: &Hold) -> bool {
    match (&*one.kind, &*other.kind) {
        // The same hold under two guards, one after the other.
        _ if one.token == other.token => false,
        ("shared", "shared") => false,
        ("permits", "permits") => one.slots.iter().any(|slot| other.slots.contains(slot)),
        _ => true,
    }
}

/// Returns true if a fault made the store forget the lock before its second grant. An evicted client may pass the
/// hold on within itself until its next renewal, so the first grant may be the later one.
fn is_excused(history: &History, second: &Hold, later: Duration) -> bool {
    let later = later.as_nanos() as u64;
    let mut losing = history.faults.iter().filter(|fault| fault.loses);
    losing.any(|fault| {
        let is_of_it = fault.name != EVICTED || fault.whom == second.name;
        let lasts = fault.began..=fault.ended.saturating_add(later);
        is_of_it && lasts.contains(&second.granted)
    })
}
