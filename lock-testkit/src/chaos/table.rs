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
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::chaos::overlaps;
    use crate::process::new_folder;

    #[test]
    fn a_row_has_the_holds_that_met_the_fault_and_the_overlaps_that_it_explains() {
        let folder = new_folder();
        let notes = "5 run call 1 before acquire 0\n6 run grant 1 exclusive 1 \n7 run held 1 8\n\
                     10 run begins failed-over a store true\n11 run call 2 a acquire 0\n\
                     12 run grant 2 exclusive 2 \n13 run held 2 30\n14 run call 3 a campaign 0\n\
                     15 run grant 3 exclusive 3 \n16 run held 3 17\n20 run ends failed-over a store\n";
        fs::write(folder.path().join("run.history"), notes).expect("the folder can be written");
        let history = History::read(folder.path());
        let (broken, excused) = overlaps::violations(&history, Duration::from_nanos(1));
        assert!(broken.is_empty(), "{broken:?}");
        let table = table("a store", &history, &excused);
        let row = "| a store | failed-over | 1 | 1 | 0 | 0 | 0 | 1 (1) | 0 |\n";
        assert!(table.ends_with(row), "{table}");
    }
}
