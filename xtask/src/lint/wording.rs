//! Checks that comments open with a verb or with the thing's name.

use crate::lint::source::Source;

/// First words that make a comment hard to read.
const OPENINGS: &[&str] =
    &["how", "it", "that", "they", "those", "what", "whether", "which", "who", "whom"];

/// Starts of comment lines in Rust, Lua and SQL, longest first.
const MARKERS: &[&str] = &["///", "//!", "//", "--"];

/// Returns the comments with such an opening, each with its place and the remedy.
pub(super) fn problems(sources: &[Source]) -> Vec<String> {
    sources.iter().flat_map(in_source).collect()
}

fn in_source(source: &Source) -> Vec<String> {
    let mut problems = Vec::new();
    let mut was_comment = false;
    for (number, line) in source.text.lines().enumerate() {
        let comment = comment(line);
        if let Some(word) = comment.filter(|_| !was_comment).and_then(opening) {
            let (path, line) = (&source.path, number + 1);
            problems.push(format!(
                "{path}:{line}: a comment opens with \"{word}\": open it with a verb or with the \
                 thing's name"
            ));
        }
        was_comment = comment.is_some();
    }
    problems
}

fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    MARKERS.iter().find_map(|marker| line.strip_prefix(marker))
}

fn opening(comment: &str) -> Option<&str> {
    let word = comment.split_whitespace().next()?;
    OPENINGS.contains(&word.to_lowercase().as_str()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> usize {
        problems(&[Source::new("a.rs", text)]).len()
    }

    #[test]
    fn an_indirect_opening_is_refused_once() {
        assert_eq!(lines("/// Whether it is held.\n/// What follows is no opening.\nfn a() {}"), 1);
        assert_eq!(lines("    // It waits.\nlet a = 1;\n-- Who waits.\n"), 2);
    }

    #[test]
    fn a_verb_or_a_name_passes() {
        assert_eq!(lines("/// Returns true while it is held.\n\n//! The holder.\n//\n"), 0);
    }
}
