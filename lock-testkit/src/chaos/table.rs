//! The table of a report: faults, and the holds that met them.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::history::{History, Hold, Struck};
use super::overlaps::Excused;

/// The ways to acquire, as [`Hold::way`] has them.
const WAYS: [&str; 6] = ["exclusive", "shared", "permits", "several", "campaign", "once"];

/// Returns a row of Markdown for each fault: how often it struck, and for each way to acquire the holds that met it.
/// In parentheses are the overlaps that it explains.
pub(super) fn table(store: &str, history: &History, excused: &[Excused<'_>]) -> String {
    let names: BTreeSet<&str> = history.faults.iter().map(|fault| &*fault.name).collect();
    let mut text = format!("| store | fault | struck | {} |\n", WAYS.join(" | "));
    let _ = writeln!(text, "|{}", " --- |".repeat(WAYS.len() + 3));
    for name in names {
        let struck: Vec<_> = history.faults.iter().filter(|fault| fault.name == name).collect();
        let _ = write!(text, "| {store} | {name} | {} |", struck.len());
        for way in WAYS {
            let holds = history.holds.iter().filter(|hold| hold.way == way && !hold.is_attached);
            let met = holds.filter(|hold| struck.iter().any(|fault| meet(hold, fault))).count();
            let explains = |(fault, hold): &&Excused<'_>| fault.name == name && hold.way == way;
            let _ = match excused.iter().filter(explains).count() {
                0 => write!(text, " {met} |"),
                overlaps => write!(text, " {met} ({overlaps}) |"),
            };
        }
        text.push('\n');
    }
    text
}

fn meet(hold: &Hold, fault: &Struck) -> bool {
    hold.granted <= fault.ended && fault.began <= hold.believed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::note::{Event, Note};
    use crate::chaos::overlaps;

    fn note(at: u64, event: Event) -> Note {
        Note { at, who: "run".to_owned(), event }
    }

    #[test]
    fn a_row_has_the_holds_that_met_the_fault_and_the_overlaps_that_it_explains() {
        let call = |at, call, name: &str, what: &str| {
            let (name, what) = (name.to_owned(), what.to_owned());
            note(at, Event::Call { call, name, what, bound: 0 })
        };
        let granted = |at, call| {
            let (kind, slots) = ("exclusive".to_owned(), Vec::new());
            note(at, Event::Granted { call, kind, token: call, slots })
        };
        let held = |at, call, moment| note(at, Event::Held { call, moment });
        let [fault, whom] = ["failed-over", "a store"].map(str::to_owned);
        let history = History::of(&[
            call(5, 1, "before", "acquire"),
            granted(6, 1),
            held(7, 1, 8),
            note(10, Event::FaultBegins { fault: fault.clone(), whom: whom.clone(), loses: true }),
            call(11, 2, "a", "acquire"),
            granted(12, 2),
            held(13, 2, 30),
            call(14, 3, "a", "campaign"),
            granted(15, 3),
            held(16, 3, 17),
            note(20, Event::FaultEnds { fault, whom }),
        ]);
        let (broken, excused) = overlaps::violations(&history, 1);
        assert!(broken.is_empty(), "{broken:?}");
        let table = table("a store", &history, &excused);
        let row = "| a store | failed-over | 1 | 1 | 0 | 0 | 0 | 1 (1) | 0 |\n";
        assert!(table.ends_with(row), "{table}");
    }
}
