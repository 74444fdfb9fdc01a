//! The page of the contract.

use std::collections::BTreeMap;

use super::clause::Clause;
use crate::lint::source::Source;

/// Heading of the section with clauses that code need not keep.
const NOT_IN_FORCE: &str = "## Not in force yet";

/// The clauses of the contract, each with its line.
#[derive(Default)]
pub(super) struct Contract {
    pub(super) in_force: BTreeMap<Clause, usize>,
    pub(super) not_in_force: BTreeMap<Clause, usize>,
    /// Lines that name a clause of an earlier line again.
    pub(super) repeated: Vec<(usize, Clause)>,
}

impl Contract {
    /// Reads the page: each clause is a line `- **C19** …`.
    pub(super) fn read(page: &Source) -> Self {
        let mut contract = Self::default();
        let mut section = "";
        for (index, line) in page.text.lines().enumerate() {
            if line.starts_with("## ") {
                section = line;
            }
            if let Some(clause) = clause_of(line) {
                contract.add(clause, index + 1, section);
            }
        }
        contract
    }

    pub(super) fn has(&self, clause: Clause) -> bool {
        self.in_force.contains_key(&clause) || self.not_in_force.contains_key(&clause)
    }

    fn add(&mut self, clause: Clause, line: usize, section: &str) {
        if self.has(clause) {
            self.repeated.push((line, clause));
        } else if section == NOT_IN_FORCE {
            self.not_in_force.insert(clause, line);
        } else {
            self.in_force.insert(clause, line);
        }
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
                assert!(contract.has(clause), "{clause} is missing");
            }
        }
        assert!(contract.repeated.is_empty());
        assert!(contract.in_force.len() > 60);
    }
}
