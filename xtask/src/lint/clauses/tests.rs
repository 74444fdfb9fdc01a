//! Breaks each rule once.

use super::*;

const CONTRACT: &str = "\
- **P1** A promise.
- **C5** A clause.
- **S4** An invariant.
";

/// Code and a test that obey the contract.
fn good() -> Vec<Source> {
    vec![
        Source::new("lock-core/src/ttl.rs", "// C5: from before the request\nfn deadline() {}\n"),
        Source::new("tests/ttl.rs", "fn c05_a_deadline() {}\n// S4: they add up\nfn sums() {}\n"),
    ]
}

/// Returns the findings of the check on good sources and the given ones.
fn said_of(contract: &str, others: &[(&str, &str)]) -> Vec<String> {
    let others = others.iter().map(|(path, text)| Source::new(path, text));
    let sources: Vec<_> = good().into_iter().chain(others).collect();
    problems(&Source::new(PAGE, contract), &sources)
}

#[track_caller]
fn assert_said(said: &[String], expected: &str) {
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with(expected), "{said:?}");
}

#[test]
fn a_contract_that_is_kept_and_shown_passes() {
    assert!(said_of(CONTRACT, &[]).is_empty());
}

#[test]
fn a_clause_that_does_not_exist_is_told() {
    let said = said_of(CONTRACT, &[("lock-redis/src/a.lua", "return 1\n-- C99: all of it\n")]);
    assert_said(&said, "lock-redis/src/a.lua:2: C99 stands in no line of docs/contract.md");
}

#[test]
fn a_clause_that_no_code_cites_is_told() {
    let said =
        said_of(&format!("- **C6** Unkept.\n{CONTRACT}"), &[("tests/a.rs", "fn c06_a() {}")]);
    assert_said(&said, "docs/contract.md:1: no code cites C6: write `// C6: …`");
}

#[test]
fn a_clause_that_no_test_cites_is_told() {
    let contract = format!("- **C6** Unshown.\n- **L1** Unshown.\n{CONTRACT}");
    let said =
        said_of(&contract, &[("lock-core/src/a.rs", "// C6: here"), ("tests/a.rs", "//! C6.")]);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("docs/contract.md:1: no test shows C6"), "{said:?}");
    assert!(said[1].contains("no test shows L1: begin a test's name with `l1_`"), "{said:?}");
}

#[test]
fn a_number_that_is_given_twice_is_told() {
    let said = said_of(&format!("{CONTRACT}- **C5** Another.\n"), &[]);
    assert_said(&said, "docs/contract.md:4: C5 stands in an earlier line too");
}

#[test]
fn examples_keep_and_show_nothing() {
    let contract = format!("- **C6** Unkept.\n{CONTRACT}");
    let said = said_of(&contract, &[("examples/a.rs", "// C6: so it goes\n")]);
    assert_eq!(said.len(), 2, "{said:?}");
}
