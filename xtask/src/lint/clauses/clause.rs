//! The number of a clause.

use std::fmt;

const LETTERS: &str = "PCSLR";

/// Number of a clause: C19.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Clause {
    letter: char,
    number: u8,
}

impl Clause {
    /// Returns the clause that a word names: `C19`.
    pub(super) fn named(word: &str) -> Option<Self> {
        let letter = word.chars().next().filter(|letter| LETTERS.contains(*letter))?;
        let digits = &word[1..];
        let is_number = digits.len() <= 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse().ok().filter(|_| is_number)?;
        Some(Self { letter, number })
    }

    /// Returns the clause at the start of a test's name: `c19_a_dropped_waiter_leaves_the_queue`.
    pub(super) fn of_test(function: &str) -> Option<Self> {
        let (clause, _) = function.split_once('_')?;
        Self::named(&clause.to_uppercase())
    }

    /// Returns the clauses that a text names. Text in backticks is code, and names none.
    pub(super) fn all_in(text: &str) -> impl Iterator<Item = Self> {
        let prose = text.split('`').step_by(2);
        let words = prose.flat_map(|part| part.split(|letter| !joins_words(letter)));
        words.filter_map(Self::named)
    }

    pub(super) fn letter(self) -> char {
        self.letter
    }

    /// Returns the start of the names of its tests.
    pub(super) fn prefix(self) -> String {
        match self.letter {
            'C' => format!("c{:02}_", self.number),
            letter => format!("{}{}_", letter.to_lowercase(), self.number),
        }
    }
}

/// Returns true for a letter that joins words, so that neither `P-256` nor `C1_x` names a clause.
fn joins_words(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-')
}

impl fmt::Display for Clause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", self.letter, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_in(text: &str) -> Vec<String> {
        Clause::all_in(text).map(|clause| clause.to_string()).collect()
    }

    #[test]
    fn a_text_names_clauses_as_words() {
        assert_eq!(all_in("C5, (C19) and S3: see L1."), ["C5", "C19", "S3", "L1"]);
        assert_eq!(all_in("C14 to C18"), ["C14", "C18"]);
    }

    #[test]
    fn what_only_looks_like_a_clause_is_none() {
        for text in ["`C1` and `Pair<C1, C2>`", "0xC19 AC5 C5a P-256 C1_x", "C C123 X1 c19", ""] {
            assert!(all_in(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn the_name_of_a_test_begins_with_its_clause() {
        let clause = Clause::of_test("c05_the_deadline_counts").expect("a clause");
        assert_eq!((clause.to_string().as_str(), clause.prefix().as_str()), ("C5", "c05_"));
        assert_eq!(Clause::of_test("s4_no_increment_is_lost").expect("a clause").prefix(), "s4_");
        assert_eq!(Clause::of_test("connect_to_all"), None);
    }
}
