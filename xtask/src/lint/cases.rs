//! Checks that every case of the testkit is in a list: a case in no list would never run.

use std::collections::HashSet;

use syn::{FnArg, Item, ItemFn, Type, Visibility};

use crate::lint::source::Source;
use crate::step::{Done, Failure};

/// The cases of a folder, and the macros that generate their tests.
struct Suite {
    folder: &'static str,
    macros: &'static [&'static str],
}

const SUITES: &[Suite] = &[
    Suite { folder: "lock-testkit/src/conformance", macros: &["conformance_tests"] },
    Suite { folder: "lock-testkit/src/faults", macros: &["test_faults", "test_resources"] },
];

/// Returns the cases that are in no list, one sentence each.
pub(super) fn problems(sources: &[Source]) -> Done<Vec<String>> {
    let mut problems = Vec::new();
    for suite in SUITES {
        problems.extend(unlisted(suite, sources)?);
    }
    Ok(problems)
}

fn unlisted(suite: &Suite, sources: &[Source]) -> Done<Vec<String>> {
    let (mut cases, mut listed) = (Vec::new(), HashSet::new());
    for source in sources.iter().filter(|source| source.is_in(suite.folder)) {
        for item in items(source)? {
            match item {
                Item::Fn(function) if is_case(&function) => cases.push((source, function)),
                other => listed.extend(words_of_list(suite, &other)),
            }
        }
    }
    let names = cases.into_iter().map(|(source, case)| (source, case.sig.ident.to_string()));
    let forgotten = names.filter(|(_, name)| !listed.contains(name));
    Ok(forgotten.map(|(source, name)| complaint(suite, source, &name)).collect())
}

fn complaint(suite: &Suite, source: &Source, name: &str) -> String {
    let macros = suite.macros.join("! or ");
    let line = source.text.lines().position(|line| line.contains(&format!("fn {name}")));
    let place = format!("{}:{}", source.path, line.map_or(1, |index| index + 1));
    format!("{place}: no test runs `{name}`: add it to the list of {macros}!")
}

fn items(source: &Source) -> Done<Vec<Item>> {
    match syn::parse_file(&source.text) {
        Ok(file) => Ok(file.items),
        Err(error) => Err(Failure::new(format!("cannot parse {}: {error}", source.path))),
    }
}

/// Returns true if a function is a case: public, async, and with no parameter but the harness, as an argument or
/// as a type.
fn is_case(function: &ItemFn) -> bool {
    let signature = &function.sig;
    let is_public = matches!(function.vis, Visibility::Public(_));
    let takes_nothing_else = match signature.inputs.first() {
        None => signature.generics.type_params().count() == 1,
        Some(first) => signature.inputs.len() == 1 && is_harness(first),
    };
    is_public && signature.asyncness.is_some() && takes_nothing_else
}

fn is_harness(argument: &FnArg) -> bool {
    let FnArg::Typed(argument) = argument else { return false };
    matches!(&*argument.ty, Type::Reference(to) if matches!(&*to.elem, Type::TraitObject(_)))
}

/// Returns the words of one of the suite's macros; they include the names of its cases.
fn words_of_list(suite: &Suite, item: &Item) -> Vec<String> {
    let Item::Macro(defined) = item else { return Vec::new() };
    let is_list = defined.ident.as_ref().is_some_and(|name| {
        suite.macros.iter().any(|list| name == list) && defined.mac.path.is_ident("macro_rules")
    });
    let text = if is_list { defined.mac.tokens.to_string() } else { String::new() };
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.split(|letter| !is_part(letter)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "macro_rules! conformance_tests { () => { @all c01_a c02_b } }";

    fn said_of(text: &str) -> Vec<String> {
        let cases = Source::new("lock-testkit/src/conformance/a.rs", text);
        let list = Source::new("lock-testkit/src/conformance/cases.rs", LIST);
        problems(&[cases, list]).expect("sources that parse")
    }

    #[test]
    fn cases_that_are_listed_pass() {
        let said =
            said_of("pub async fn c01_a(h: &dyn Harness) {}\npub async fn c02_b(h: &dyn H) {}");
        assert!(said.is_empty(), "{said:?}");
    }

    #[test]
    fn a_case_that_is_not_listed_is_told() {
        let said = said_of("//! A.\npub async fn c03_c(harness: &dyn Harness) {}");
        let expected = "lock-testkit/src/conformance/a.rs:2: no test runs `c03_c`: add it to the list of \
                        conformance_tests!";
        assert_eq!(said, [expected]);
    }

    #[test]
    fn a_name_that_only_begins_as_a_listed_one_is_told() {
        assert_eq!(said_of("pub async fn c01(harness: &dyn Harness) {}").len(), 1);
    }

    #[test]
    fn a_behaviour_under_faults_that_is_not_listed_is_told() {
        let text = "pub async fn c17_a<H: Harness>() {}\npub async fn l1_b<H: Harness>() {}\n\
                    macro_rules! test_resources { () => { l1_b } }";
        let said = problems(&[Source::new("lock-testkit/src/faults/a.rs", text)]);
        let said = said.expect("sources that parse");
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("no test runs `c17_a`: add it to the list of test_faults! or"));
    }

    #[test]
    fn steps_are_no_cases() {
        let said = said_of(
            "pub async fn a() {}\npub fn b(harness: &dyn Harness) {}\n\
             async fn c(harness: &dyn Harness) {}\npub(super) async fn d(harness: &dyn Harness) {}\n\
             pub async fn e(harness: &dyn Harness, what: &str) {}\npub async fn f(name: &str) {}",
        );
        assert!(said.is_empty(), "{said:?}");
    }
}
