//! S2: tokens are unique, and increase in the order of real time. C42: a recorded occurrence does not run again.

use super::clock::SECOND;
use super::fault::{CLOCK_FORWARD, EVICTED};
use super::history::{History, Hold, Struck};
use super::report::Violation;

pub(super) fn violations(history: &History) -> Vec<Violation> {
    let names = history.names();
    let of_tokens = names.iter().filter_map(|name| out_of_order(&history.holds_of(name)));
    let same = names.iter().filter_map(|name| granted_twice(&history.holds_of(name)));
    of_tokens.chain(same).chain(run_twice(history)).collect()
}

/// Returns a hold whose token is not greater than that of a hold that was granted before it was asked for.
fn out_of_order(holds: &[&Hold]) -> Option<Violation> {
    let holds: Vec<_> = holds.iter().filter(|hold| !hold.is_attached).collect();
    let mut by_call = holds.clone();
    by_call.sort_by_key(|hold| hold.called);
    let (mut earlier, mut greatest) = (holds.into_iter().peekable(), None::<&Hold>);
    for hold in by_call {
        while let Some(before) = earlier.next_if(|before| before.granted < hold.called) {
            if greatest.is_none_or(|greatest| greatest.token < before.token) {
                greatest = Some(before);
            }
        }
        if let Some(before) = greatest.filter(|before| before.token >= hold.token) {
            return Some(Violation::of_two("S2", before, hold, "granted before it was asked for"));
        }
    }
    None
}

fn granted_twice(holds: &[&Hold]) -> Option<Violation> {
    let mut holds: Vec<_> = holds.iter().filter(|hold| !hold.is_attached).collect();
    holds.sort_by_key(|hold| hold.token);
    let twice = holds.windows(2).find(|pair| pair[0].token == pair[1].token)?;
    Some(Violation::of_two("S2", twice[0], twice[1], "granted the same token"))
}

/// Returns a run that began after a run of the same occurrence was recorded, if no fault made the store forget.
fn run_twice(history: &History) -> Option<Violation> {
    let forgets =
        |fault: &Struck| fault.loses && fault.name != EVICTED || fault.name == CLOCK_FORWARD;
    if history.faults.iter().any(forgets) {
        return None;
    }
    let twice = |(hold, occurrence): &(usize, String)| {
        let first = &history.holds[*hold];
        let again = |(other, of): &&(usize, String)| {
            of == occurrence && history.holds[*other].called > first.believed + SECOND
        };
        let (other, _) = history.runs.iter().find(again)?;
        let why = "recorded, and run again";
        Some(Violation::of_two("C42", first, &history.holds[*other], why))
    };
    history.runs.iter().find_map(twice)
}
