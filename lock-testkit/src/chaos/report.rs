//! Result of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::bounds;
use super::clock::MILLI;
use super::drawing::draw;
use super::history::{History, Hold};
use super::linear::Operation;
use super::note::{Note, Run};
use super::overlaps::{self, Excused};
use super::table::table;
use super::tokens;
use super::updates;
use super::usage::Usage;

/// Result of a run. Its text has the figures and, for each violation, the events and the path of its drawing.
#[derive(Debug)]
pub struct Report {
    run: Run,
    figures: Vec<(&'static str, usize)>,
    faults: BTreeMap<String, usize>,
    violations: Vec<Violation>,
    drawings: Vec<String>,
    /// The faults and the holds that met them.
    table: String,
    /// The resources in use at the rests of a soak.
    rests: String,
    folder: Option<PathBuf>,
}

/// A clause that was broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The broken clause.
    pub clause: &'static str,
    /// The lock.
    pub name: String,
    /// Begin and end, in nanoseconds of the run's clock.
    pub(super) from: u64,
    pub(super) to: u64,
    /// The events.
    pub text: String,
}

impl Violation {
    /// Returns the violation of two holds that exclude each other, at the same time or in the wrong order.
    pub(super) fn of_two(clause: &'static str, first: &Hold, second: &Hold, why: &str) -> Self {
        let told = |hold: &Hold| {
            format!(
                "{}'s {} hold under token {}, granted at {} and believed in until {}",
                hold.who, hold.kind, hold.token, hold.granted, hold.believed
            )
        };
        Self {
            clause,
            name: second.name.clone(),
            from: second.granted.min(first.granted),
            to: first.believed.max(second.granted),
            text: format!("{why}: {}; {}", told(first), told(second)),
        }
    }

    pub(super) fn of_operation(
        clause: &'static str,
        name: &str,
        operation: &Operation,
        why: &str,
    ) -> Self {
        let (act, returned) = (operation.act, operation.returned);
        let to = returned.map_or(operation.called, |(at, _)| at);
        let text = format!("{why} {}'s {act:?}, which returned {returned:?}", operation.who);
        Self { clause, name: name.to_owned(), from: operation.called, to, text }
    }

    /// Returns the violation that is found at the end of a run.
    pub(super) fn at_end(clause: &'static str, name: &str, text: String) -> Self {
        Self { clause, name: name.to_owned(), from: u64::MAX, to: u64::MAX, text }
    }
}

impl Report {
    /// Judges a history, and adds the violations that were `found` otherwise.
    pub(super) fn of(notes: &[Note], found: Vec<Violation>) -> Self {
        let (history, mut violations) = (History::of(notes), found);
        violations.extend(tokens::violations(&history));
        violations.extend(updates::violations(&history));
        violations.extend(bounds::violations(&history));
        let (broken, excused) = overlaps::violations(&history, history.run.forgets_for);
        violations.extend(broken);
        Self::new(&history, violations, &excused)
    }

    fn new(history: &History, violations: Vec<Violation>, excused: &[Excused<'_>]) -> Self {
        let mut faults = BTreeMap::new();
        for fault in &history.faults {
            *faults.entry(fault.name.clone()).or_default() += 1;
        }
        let figures = vec![
            ("calls", history.calls.len()),
            ("grants", history.holds.len()),
            ("losses", history.losses.len()),
            ("operations on registers", history.operations.values().map(Vec::len).sum()),
            ("faults", history.faults.len()),
            ("overlaps that a forgetting store excuses", excused.len()),
            ("violations", violations.len()),
        ];
        // Only the first violation of each clause is drawn: the others mostly have the same cause.
        let mut drawn: Vec<&Violation> = Vec::new();
        for violation in violations.iter().filter(|violation| violation.from != u64::MAX) {
            if drawn.iter().all(|other| other.clause != violation.clause) {
                drawn.push(violation);
            }
        }
        let drawings = drawn.iter().map(|violation| draw(history, violation)).collect();
        let (run, rests, folder) = (history.run.clone(), String::new(), None);
        let table = table(&run.store, history, excused);
        Self { run, figures, faults, violations, drawings, table, rests, folder }
    }

    /// Adds the resources in use at each rest.
    pub(super) fn with(self, rests: &[Usage]) -> Self {
        let lines = rests.iter().enumerate();
        let rests =
            lines.map(|(number, usage)| format!("rest {}: {usage}\n", number + 1)).collect();
        Self { rests, ..self }
    }

    /// Keeps the histories and the drawings if there is a violation.
    pub(super) fn kept_in(self, folder: TempDir) -> Self {
        if self.violations.is_empty() {
            return self;
        }
        // The folder would be removed at the end of this process.
        let kept = folder.path().with_extension("kept");
        let _ = fs::rename(folder.path(), &kept);
        for (number, drawing) in self.drawings.iter().enumerate() {
            let _ = fs::write(kept.join(format!("violation-{number}.svg")), drawing);
        }
        Self { folder: Some(kept), ..self }
    }

    /// Returns the number of violations of a clause.
    pub fn violations(&self, clause: &str) -> usize {
        self.violations.iter().filter(|violation| violation.clause == clause).count()
    }

    /// Returns the number of faults of this name that struck.
    pub fn faults(&self, name: &str) -> usize {
        self.faults.get(name).copied().unwrap_or(0)
    }

    /// Returns the number of grants.
    pub fn grants(&self) -> usize {
        self.figures.iter().find(|(name, _)| *name == "grants").map_or(0, |(_, count)| *count)
    }

    /// Prints the report.
    ///
    /// # Panics
    /// If there is a violation, or no lock was granted, with the report.
    pub fn demand_none(&self) {
        println!("{self}");
        assert!(self.violations.is_empty(), "the contract is broken:\n{self}");
        assert!(self.grants() > 0, "nothing was granted:\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run { store, seed, workers, seconds, .. } = &self.run;
        write!(f, "{store}, seed {seed}, {workers} workers, {seconds} s:")?;
        for (name, count) in &self.figures {
            write!(f, " {count} {name};")?;
        }
        let faults: Vec<_> =
            self.faults.iter().map(|(name, count)| format!("{name} {count}")).collect();
        write!(f, " faults: {}\n{}", faults.join(", "), self.rests)?;
        f.write_str(&self.table)?;
        for violation in self.violations.iter().take(20) {
            let Violation { clause, name, from, to, text } = violation;
            writeln!(f, "{clause} of {name} at {from} for {} ms: {text}", (to - from) / MILLI)?;
        }
        match &self.folder {
            Some(folder) => writeln!(f, "the histories and drawings: {}", folder.display()),
            None => Ok(()),
        }
    }
}
