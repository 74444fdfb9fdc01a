//! Finds the lines that are test code.

use crate::lint::source::Source;

/// Folders of test code besides those called `tests`: the suites for authors of backends.
const SUITES: &[&str] = &["lock-testkit"];

/// Returns for each line of a file true if it is test code: all lines of a test file, and those of a
/// `#[cfg(test)] mod … { … }` in another.
pub(super) fn test_lines(source: &Source) -> Vec<bool> {
    let whole = is_test_file(source);
    let mut part = TestPart::default();
    source.text.lines().map(|line| part.covers(line) || whole).collect()
}

fn is_test_file(source: &Source) -> bool {
    let path = format!("/{}", source.path);
    path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
        || SUITES.iter().any(|folder| source.is_in(folder))
}

/// State while reading a file line by line: the part that is for tests.
#[derive(Default)]
struct TestPart {
    /// True if the last lines were `#[cfg(test)]` and attributes after it.
    is_announced: bool,
    /// Text of the line that will end the part.
    end: Option<String>,
}

impl TestPart {
    fn covers(&mut self, line: &str) -> bool {
        if let Some(end) = &self.end {
            if line == end {
                self.end = None;
            }
            return true;
        }
        let code = line.trim_start();
        let begins = self.is_announced && code.starts_with("mod ") && code.ends_with('{');
        if begins {
            // rustfmt puts the closing brace in the column of the first letter.
            self.end = Some(format!("{}}}", &line[..line.len() - code.len()]));
        }
        self.is_announced = code == "#[cfg(test)]" || self.is_announced && code.starts_with("#[");
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_for_tests_is_test_code_to_its_end() {
        let text = "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n    fn b() {}\n}\nfn c() {}";
        let lines = test_lines(&Source::new("lock-core/src/a.rs", text));
        assert_eq!(lines, [false, false, false, true, true, true, false]);
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
