//! Checks that the contract and the code agree. Each cited clause is in the contract. Each clause in force is
//! kept by code and shown by a test, and both cite it.
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
    let neglected = contract.in_force.iter().flat_map(|clause| neglected(clause, &citations));
    repeated.chain(wrong).chain(neglected).collect()
}

fn repeated((line, clause): &(usize, Clause)) -> String {
    format!("{PAGE}:{line}: {clause} stands in an earlier line too: give each its own number")
}

/// Returns the error of a citation.
fn wrong(Citation { clause, place, kind }: &Citation, contract: &Contract) -> Option<String> {
    if !contract.has(*clause) {
        return Some(format!(
            "{place}: {clause} stands in no line of {PAGE}: correct the number, or put it in \
             backticks if it is no clause"
        ));
    }
    let claims_too_much = *kind == Kind::TestName && contract.not_in_force.contains_key(clause);
    claims_too_much.then(|| {
        format!(
            "{place}: {clause} is not in force yet, and no test may claim it: move its line in \
             {PAGE} to its section, or name the test differently"
        )
    })
}

/// Returns the missing citations of a clause in force.
fn neglected((clause, line): (&Clause, &usize), citations: &[Citation]) -> Vec<String> {
    let has = |kinds: &[Kind]| {
        citations
            .iter()
            .any(|citation| citation.clause == *clause && kinds.contains(&citation.kind))
    };
    let place = format!("{PAGE}:{line}");
    let mut lacks = Vec::new();
    if needs_code(*clause) && !has(&[Kind::Code]) {
        lacks.push(format!(
            "{place}: no code cites {clause}: write `// {clause}: …` where the code keeps it"
        ));
    }
    if needs_test(*clause) && !has(&[Kind::TestName, Kind::TestComment]) {
        lacks.push(format!(
            "{place}: no test shows {clause}: begin a test's name with `{}`, or cite {clause} in a \
             comment above the test that shows it",
            clause.prefix()
        ));
    }
    lacks
}

/// Only clauses have a place in the code. Promises and invariants are the result of many places together.
fn needs_code(clause: Clause) -> bool {
    clause.letter() == 'C'
}

/// All except promises: these are the sum of the clauses, and no single test can show one.
fn needs_test(clause: Clause) -> bool {
    clause.letter() != 'P'
}

#[cfg(test)]
mod tests;
