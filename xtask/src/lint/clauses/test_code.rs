//! Finds the lines that are test code.

use crate::lint::source::Source;

/// Returns for each line of a file true if it is test code: all lines of a test file, and the module `tests` of another.
pub(super) fn test_lines(source: &Source) -> impl Iterator<Item = bool> {
    let text = if is_test_file(source) { "" } else { &*source.text };
    // Clippy demands that this module is the last item of its file.
    let code = text.find("mod tests {").map_or(text, |end| &text[..end]).lines().count();
    (0..source.text.lines().count()).map(move |line| line >= code)
}

fn is_test_file(source: &Source) -> bool {
    let path = format!("/{}", source.path);
    path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
        || source.is_in("lock-testkit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_for_tests_is_test_code() {
        let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        let source = Source::new("lock-core/src/a.rs", text);
        let lines: Vec<_> = test_lines(&source).collect();
        assert_eq!(lines, [false, false, false, true, true, true]);
    }

    #[test]
    fn files_for_tests_are_known_by_their_place() {
        let is_test = |path: &str| is_test_file(&Source::new(path, ""));
        for path in
            ["tests/swap.rs", "lock-file/src/backend/tests.rs", "lock-testkit/src/conformance/a.rs"]
        {
            assert!(is_test(path), "{path}");
        }
        for path in ["lock-core/src/ttl.rs", "lock-file/src/testing.rs", "src/contests.rs"] {
            assert!(!is_test(path), "{path}");
        }
    }
}
