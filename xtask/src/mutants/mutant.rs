//! One mutant.

use std::path::Path;

use crate::step::{Done, Failure};

/// One way to break the code, and the test that must notice.
pub(super) struct Mutant {
    pub(super) name: &'static str,
    pub(super) file: &'static str,
    /// A text that occurs exactly once in the file.
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    /// What `cargo test` is told: a package, a target of it, and a test's name.
    pub(super) test: &'static str,
}

impl Mutant {
    /// The file with the fault in it.
    fn apply(&self, source: &str) -> Done<String> {
        match source.matches(self.from).count() {
            1 => Ok(source.replacen(self.from, self.to, 1)),
            count => Err(Failure::new(format!(
                "mutant \"{}\": its text occurs {count} times in {}, not once",
                self.name, self.file
            ))),
        }
    }

    /// Whether the fault is in the code of this package, which is called by its folder.
    pub(super) fn is_in(&self, package: &str) -> bool {
        self.file.strip_prefix(package).is_some_and(|file| file.starts_with('/'))
    }

    pub(super) fn apply_in(&self, tree: &Path) -> Done<String> {
        let path = tree.join(self.file);
        let source = std::fs::read_to_string(&path)
            .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
        self.apply(&source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Mutant =
        Mutant { name: "sample", file: "sample.rs", from: "a + b", to: "a - b", test: "" };

    #[test]
    fn a_mutant_replaces_its_text() {
        assert_eq!(SAMPLE.apply("let c = a + b;").expect("once"), "let c = a - b;");
    }

    #[test]
    fn a_text_that_is_not_there_once_is_refused() {
        for source in ["", "a + b a + b"] {
            assert!(SAMPLE.apply(source).is_err(), "{source}");
        }
    }
}
