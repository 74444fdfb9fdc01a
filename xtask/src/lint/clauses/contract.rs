//! The page of the contract.

use std::collections::BTreeMap;

use super::clause::Clause;
use crate::lint::source::Source;

/// The clauses of the contract, each with its line.
#[derive(Default)]
pub(super) struct Contract {
    pub(super) clauses: BTreeMap<Clause, usize>,
    /// Lines that name a clause of an earlier line again.
    pub(super) repeated: Vec<(usize, Clause)>,
}

impl Contract {
    /// Reads the page: each clause is a line `- **C19** …`.
    pub(super) fn read(page: &Source) -> Self {
        let mut contract = Self::default();
        for (index, line) in page.text.lines().enumerate() {
            let Some(clause) = clause_of(line) else { continue };
            let line = *contract.clauses.entry(clause).or_insert(index + 1);
            if line != index + 1 {
                contract.repeated.push((index + 1, clause));
            }
        }
        contract
    }
}

fn clause_of(line: &str) -> Option<Clause> {
    let (clause, _) = line.strip_prefix("- **")?.split_once("**")?;
    Clause::named(clause)
}

#[cfg(test)]
mod tests {
    use super::super::PAGE;
    use super::*;
    use crate::lint::source;

    #[test]
    fn the_page_leaves_no_number_out() {
        let contract = Contract::read(&source::read(PAGE).expect("a page"));
        for (letter, last) in [("P", 2), ("C", 49), ("S", 8), ("L", 5), ("R", 4)] {
            for number in 1..=last {
                let clause = Clause::named(&format!("{letter}{number}")).expect("a clause");
                assert!(contract.clauses.contains_key(&clause), "{clause} is missing");
            }
        }
        assert!(contract.repeated.is_empty());
    }
}
