//! Citations of clauses.

use super::clause::Clause;
use super::test_code::test_lines;
use crate::lint::source::Source;

/// One citation of a clause in a source.
pub(super) struct Citation {
    pub(super) clause: Clause,
    /// File and line, in the form that editors and terminals link.
    pub(super) place: String,
    pub(super) kind: Kind,
}

/// Meaning of a citation for its clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A comment in the code: the code keeps the clause.
    Code,
    /// The name of a test, or a comment in test code: the test shows the clause.
    Test,
    /// Neither keeps nor shows the clause: in examples and benches, and in the head (`//!`) of a test file, which
    /// describes its tests.
    Aside,
}

/// Returns all citations in a source.
pub(super) fn citations(source: &Source) -> Vec<Citation> {
    let lines = source.text.lines().zip(test_lines(source)).enumerate();
    lines.flat_map(|(index, (line, is_test))| in_line(source, index + 1, line, is_test)).collect()
}

fn in_line(source: &Source, number: usize, line: &str, is_test: bool) -> Vec<Citation> {
    let mut found = Vec::new();
    let mut cite = |clause, kind| {
        found.push(Citation { clause, place: format!("{}:{number}", source.path), kind });
    };
    if let Some(comment) = comment(line, marker(source)) {
        let kind = kind_of_comment(source, comment, is_test);
        Clause::all_in(comment).for_each(|clause| cite(clause, kind));
    }
    if let Some(clause) = function(line).filter(|_| is_test).and_then(Clause::of_test) {
        cite(clause, Kind::Test);
    }
    found
}

fn kind_of_comment(source: &Source, comment: &str, is_test: bool) -> Kind {
    match is_test {
        _ if source.is_in("examples") || source.is_in("benches") => Kind::Aside,
        true if comment.starts_with('!') => Kind::Aside,
        true => Kind::Test,
        false => Kind::Code,
    }
}

/// Returns the start of comments in the language of a file: Rust, Lua or SQL.
fn marker(source: &Source) -> &'static str {
    match source.path.ends_with(".rs") {
        true => "//",
        false => "--",
    }
}

/// Returns the text after the marker of a comment. The marker begins a line or follows a space, unlike the
/// slashes of a URL.
fn comment<'a>(line: &'a str, marker: &str) -> Option<&'a str> {
    let places = line.match_indices(marker).map(|(place, _)| line.split_at(place));
    let mut comments = places.filter(|(before, _)| before.is_empty() || before.ends_with(' '));
    comments.next().map(|(_, comment)| &comment[marker.len()..])
}

/// Returns the name of the function whose definition begins in a line.
fn function(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_definition = before.is_empty() || before.ends_with(' ');
    rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .next()
        .filter(|_| is_definition)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(path: &str, text: &str) -> Vec<(String, Kind)> {
        let found = citations(&Source::new(path, text));
        found.into_iter().map(|citation| (citation.clause.to_string(), citation.kind)).collect()
    }

    fn cited(clause: &str, kind: Kind) -> Vec<(String, Kind)> {
        vec![(clause.into(), kind)]
    }

    #[test]
    fn comments_of_code_cite() {
        let cites = cited("C5", Kind::Code);
        assert_eq!(kinds("lock-core/src/a.rs", "    let a = b; // C5: from before"), cites);
        assert_eq!(kinds("lock-core/src/a.rs", "/// The deadline (C5)."), cites);
        assert_eq!(kinds("lock-redis/src/a.lua", "-- C5: its server's time"), cites);
        assert_eq!(kinds("lock-postgres/src/a.sql", "select 1 -- C5"), cites);
    }

    #[test]
    fn code_does_not_cite() {
        for line in ["struct A<C5>(C5);", "let url = \"http://C5\";", "fn c05_a() {}", "x --C5"] {
            assert!(kinds("lock-core/src/a.rs", line).is_empty(), "{line}");
        }
    }

    #[test]
    fn tests_cite_by_name_and_by_comment() {
        assert_eq!(kinds("tests/a.rs", "async fn c05_a() {"), cited("C5", Kind::Test));
        assert_eq!(kinds("tests/a.rs", "/// S7: never later."), cited("S7", Kind::Test));
        assert_eq!(kinds("tests/a.rs", "//! C5 to all."), cited("C5", Kind::Aside));
    }
}
