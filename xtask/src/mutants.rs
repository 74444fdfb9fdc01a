//! Proves that named tests notice faults: breaks the code in named ways, and demands that they fail.
//!
//! It works on a copy of the workspace. First every named test must run there, and pass: a test that
//! always fails would otherwise look like one that notices the fault, and so would a name that fits no
//! test. Then each mutant on its own must compile, and its test must fail.

mod bench;
mod copy;
mod mutant;
mod table;

use crate::mutants::bench::{Bench, Verdict};
use crate::mutants::mutant::Mutant;
use crate::step::{Done, Failure};
use crate::workspace;

/// Tries the mutants whose name contains one of `names`, if there are any, of those in the code of `package`.
pub(crate) fn run(names: &[String], package: Option<&str>) -> Done {
    let chosen = chosen(names, package)?;
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

fn chosen(names: &[String], package: Option<&str>) -> Done<Vec<&'static Mutant>> {
    let fits = |mutant: &&Mutant| {
        let is_named = names.is_empty() || names.iter().any(|name| mutant.name.contains(name));
        is_named && package.is_none_or(|package| mutant.is_in(package))
    };
    let chosen: Vec<_> = table::all().filter(fits).collect();
    if chosen.is_empty() {
        let names: Vec<_> = table::all().map(|mutant| mutant.name).collect();
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

    #[test]
    fn every_mutant_finds_its_text() {
        let stale = table::all().filter_map(|mutant| mutant.apply_in(workspace::root()).err());
        let stale: Vec<_> = stale.collect();
        assert!(stale.is_empty(), "{stale:#?}");
    }
}
