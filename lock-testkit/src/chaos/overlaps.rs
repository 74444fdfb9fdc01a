//! S3: believed holds do not overlap, unless their kinds allow it.

use super::fault::EVICTED;
use super::history::{History, Hold, Struck};
use super::report::Violation;

/// An overlap that a fault excuses: that fault, and the later hold.
pub(super) type Excused<'a> = (&'a Struck, &'a Hold);

/// Returns the overlaps that break S3, and those that a fault excuses: one that made the store forget, at most
/// `later` nanoseconds before.
pub(super) fn violations(history: &History, later: u64) -> (Vec<Violation>, Vec<Excused<'_>>) {
    let (mut broken, mut excused) = (Vec::new(), Vec::new());
    for name in history.names() {
        for (first, second) in overlaps(&history.holds_of(&name)) {
            match excuse(history, second, later) {
                Some(fault) => excused.push((fault, second)),
                None => broken.push(Violation::of_two("S3", first, second, "believed beside")),
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

/// Returns the fault that made the store forget the lock before its second grant. An evicted client may pass the
/// hold on within itself until its next renewal, so the first grant may be the later one.
fn excuse<'a>(history: &'a History, second: &Hold, later: u64) -> Option<&'a Struck> {
    let mut losing = history.faults.iter().filter(|fault| fault.loses);
    losing.find(|fault| {
        let is_of_it = fault.name != EVICTED || fault.whom == second.name;
        let lasts = fault.began..=fault.ended.saturating_add(later);
        is_of_it && lasts.contains(&second.granted)
    })
}
