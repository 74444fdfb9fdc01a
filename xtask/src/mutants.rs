//! Proves that named tests bite: breaks the code in named ways, and demands that they fail.
//!
//! It works on a copy of the workspace. First every named test must pass there and really run;
//! else a test that fails always, or a name that fits no test, would look like one that bites. Then
//! each mutant on its own must compile, and its test must fail.

mod bench;
mod copy;
mod table;

use std::path::Path;

use crate::mutants::bench::{Bench, Verdict};
use crate::mutants::table::MUTANTS;
use crate::step::{Done, Failure};
use crate::workspace;

/// One way to break the code, and the test that must notice.
struct Mutant {
    name: &'static str,
    file: &'static str,
    /// A text that occurs exactly once in the file.
    from: &'static str,
    to: &'static str,
    /// What `cargo test` is told: a package, a target of it, and a test's name.
    test: &'static str,
}

impl Mutant {
    /// The file with the fault in it.
    fn apply(&self, source: &str) -> Done<String> {
        match source.matches(self.from).count() {
            1 => Ok(source.replacen(self.from, self.to, 1)),
            count => Err(Failure::new(format!(
                "mutant \"{}\": its text occurs {count} times in {}, not once",
                self.name, self.file
            ))),
        }
    }

    /// Whether the named test is one of this package.
    fn is_noticed_by(&self, package: &str) -> bool {
        self.test.strip_prefix("-p ").and_then(|rest| rest.split(' ').next()) == Some(package)
    }

    fn apply_in(&self, tree: &Path) -> Done<String> {
        let path = tree.join(self.file);
        let source = std::fs::read_to_string(&path)
            .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
        self.apply(&source)
    }
}

/// Tries the mutants whose name contains `name`, of those that tests of `package` are to notice.
pub(crate) fn run(name: &str, package: Option<&str>) -> Done {
    let chosen = chosen(name, package)?;
    // Before anything is built, because the table goes stale easily.
    for mutant in &chosen {
        mutant.apply_in(workspace::root())?;
    }
    let bench = Bench::set_up()?;
    bench.control(&chosen)?;
    let mut verdicts = Vec::new();
    for mutant in &chosen {
        let verdict = bench.judge(mutant)?;
        println!("{}: {verdict}", mutant.name);
        verdicts.push(verdict);
    }
    conclude(&chosen, &verdicts)
}

fn chosen(name: &str, package: Option<&str>) -> Done<Vec<&'static Mutant>> {
    let fits = |mutant: &&Mutant| {
        mutant.name.contains(name) && package.is_none_or(|package| mutant.is_noticed_by(package))
    };
    let chosen: Vec<_> = MUTANTS.iter().filter(fits).collect();
    if chosen.is_empty() {
        let names: Vec<_> = MUTANTS.iter().map(|mutant| mutant.name).collect();
        let text = format!("there is no such mutant; there are:\n  {}", names.join("\n  "));
        return Err(Failure::new(text));
    }
    Ok(chosen)
}

/// Prints the table; fails if any mutant went unnoticed.
fn conclude(mutants: &[&Mutant], verdicts: &[Verdict]) -> Done {
    let width = mutants.iter().map(|mutant| mutant.name.len()).max().unwrap_or(0);
    println!();
    for (mutant, verdict) in mutants.iter().zip(verdicts) {
        println!("{:width$}  {verdict:20}  {}", mutant.name, mutant.test);
    }
    let survivors = verdicts.iter().filter(|verdict| **verdict == Verdict::Survived).count();
    match survivors {
        0 => Ok(()),
        _ => Err(Failure::new(format!("{survivors} of {} mutants survived", mutants.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Mutant =
        Mutant { name: "sample", file: "sample.rs", from: "a + b", to: "a - b", test: "" };

    #[test]
    fn a_mutant_replaces_its_text() {
        assert_eq!(SAMPLE.apply("let c = a + b;").expect("once"), "let c = a - b;");
    }

    #[test]
    fn a_text_that_is_not_there_once_is_refused() {
        for source in ["", "a + b a + b"] {
            assert!(SAMPLE.apply(source).is_err(), "{source}");
        }
    }

    #[test]
    fn every_mutant_finds_its_text() {
        let stale = MUTANTS.iter().filter_map(|mutant| mutant.apply_in(workspace::root()).err());
        let stale: Vec<_> = stale.collect();
        assert!(stale.is_empty(), "{stale:#?}");
    }
}
