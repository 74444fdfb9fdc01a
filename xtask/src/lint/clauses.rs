//! Checks that the contract and the code agree. Each cited clause is in the contract. Each clause is kept by code and
//! shown by a test, and both cite it.
//!
//! A comment in the code cites a clause by its number (`// C19: …`). A test cites a clause by its name (`c19_…`),
//! or by a comment in the test code.

mod citation;
mod clause;
mod contract;
mod test_code;

use self::citation::{Citation, Kind, citations};
use self::clause::Clause;
use self::contract::Contract;
use crate::lint::source::Source;

/// Page with all clauses.
pub(super) const PAGE: &str = "docs/contract.md";

/// Folders whose comments are about citations.
const NOT_READ: &[&str] = &["xtask"];

/// Returns all disagreements, one sentence each, with place and remedy.
pub(super) fn problems(page: &Source, sources: &[Source]) -> Vec<String> {
    let contract = Contract::read(page);
    let read = sources.iter().filter(|source| !NOT_READ.iter().any(|folder| source.is_in(folder)));
    let citations: Vec<_> = read.flat_map(citations).collect();
    let repeated = contract.repeated.iter().map(repeated);
    let wrong = citations.iter().filter_map(|citation| wrong(citation, &contract));
    let neglected = contract.clauses.iter().flat_map(|clause| neglected(clause, &citations));
    repeated.chain(wrong).chain(neglected).collect()
}

fn repeated((line, clause): &(usize, Clause)) -> String {
    format!("{PAGE}:{line}: {clause} stands in an earlier line too: give each its own number")
}

/// Returns the error of a citation.
fn wrong(Citation { clause, place, .. }: &Citation, contract: &Contract) -> Option<String> {
    let is_unknown = !contract.clauses.contains_key(clause);
    is_unknown.then(|| {
        format!(
            "{place}: {clause} stands in no line of {PAGE}: correct the number, or put it in \
             backticks if it is no clause"
        )
    })
}

/// Returns the missing citations of a clause.
fn neglected((clause, line): (&Clause, &usize), citations: &[Citation]) -> Vec<String> {
    let has =
        |kind| citations.iter().any(|citation| citation.clause == *clause && citation.kind == kind);
    let place = format!("{PAGE}:{line}");
    let mut lacks = Vec::new();
    // Promises and invariants are the result of many places together.
    if clause.letter() == 'C' && !has(Kind::Code) {
        lacks.push(format!(
            "{place}: no code cites {clause}: write `// {clause}: …` where the code keeps it"
        ));
    }
    // A promise is the sum of the clauses, and no single test can show it.
    if clause.letter() != 'P' && !has(Kind::Test) {
        lacks.push(format!(
            "{place}: no test shows {clause}: begin a test's name with `{}`, or cite {clause} in a \
             comment above the test that shows it",
            clause.prefix()
        ));
    }
    lacks
}

#[cfg(test)]
mod tests;
