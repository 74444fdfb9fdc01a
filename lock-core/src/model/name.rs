//! Names: of a lock, of its holder, and of a run.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::invalid_input::{InputKind, InvalidInput};
use super::readable::Readable;

/// The name of a lock (C1): 1 to 512 bytes of UTF-8 without control characters.
///
/// Everything else is data, never syntax: braces, globs, quotes, spaces and slashes mean nothing to
/// a backend, and no name can meet another's companions. Two locks are the same exactly when their
/// names are the same bytes; there is no normalisation.
///
/// [`as_str`](Self::as_str) is the name as it was given. `Display` is for people: it escapes characters that are
/// invisible or reorder text, so that no name can look like another.
///
/// ```
/// use lock_core::LockName;
///
/// assert_eq!(LockName::new("stock:42")?.as_str(), "stock:42");
/// assert!(LockName::new("").is_err());
/// assert!(LockName::new("a\nb").is_err());
/// # Ok::<(), lock_core::InvalidInput>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(Arc<str>);

impl LockName {
    /// The longest name, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 512;

    /// Checks `name` and takes it.
    ///
    /// # Errors
    /// [`InvalidInput`] if it is empty, longer than 512 bytes, or holds a control character.
    pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidInput> {
        // C1: checked before any input or output.
        checked(InputKind::Name, "lock name", name.as_ref(), 1..=Self::MAX_BYTES).map(Self)
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A holder's own label, for people who inspect a lock: 0 to 128 bytes of UTF-8 without control characters. The label
/// has no effect.
///
/// ```
/// use lock_core::Label;
///
/// assert_eq!(Label::new("web-3:4711")?.as_str(), "web-3:4711");
/// # Ok::<(), lock_core::InvalidInput>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Label(Arc<str>);

impl Label {
    /// The longest label, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 128;

    /// Checks `label` and takes it.
    ///
    /// # Errors
    /// [`InvalidInput`] if it is longer than 128 bytes or holds a control character.
    pub fn new(label: impl AsRef<str>) -> Result<Self, InvalidInput> {
        checked(InputKind::Label, "label", label.as_ref(), 0..=Self::MAX_BYTES).map(Self)
    }

    /// The label as it was given; empty if the holder gave none.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One run of a job (C42), such as the day that it is for: 1 to 512 bytes of UTF-8 without control characters. It is
/// data, as a name is.
///
/// ```
/// use lock_core::Occurrence;
///
/// assert_eq!(Occurrence::new("2026-11-21")?.as_str(), "2026-11-21");
/// # Ok::<(), lock_core::InvalidInput>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Occurrence(Arc<str>);

impl Occurrence {
    /// The longest occurrence, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 512;

    /// Checks `occurrence` and takes it.
    ///
    /// # Errors
    /// [`InvalidInput`] if it is empty, longer than 512 bytes, or holds a control character.
    pub fn new(occurrence: impl AsRef<str>) -> Result<Self, InvalidInput> {
        let (kind, text) = (InputKind::Occurrence, occurrence.as_ref());
        checked(kind, "occurrence", text, 1..=Self::MAX_BYTES).map(Self)
    }

    /// The occurrence as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Takes a text of so many `bytes` without control characters.
fn checked(
    kind: InputKind,
    what: &str,
    text: &str,
    bytes: RangeInclusive<usize>,
) -> Result<Arc<str>, InvalidInput> {
    let fault = if text.len() < *bytes.start() {
        "it is empty"
    } else if text.len() > *bytes.end() {
        "it is too long"
    } else if text.chars().any(char::is_control) {
        "it holds a control character"
    } else {
        return Ok(text.into());
    };
    let (shown, least, most) = (excerpt(text), bytes.start(), bytes.end());
    let message = format!(
        "invalid {what} \"{shown}\": {fault} (choose {least} to {most} bytes of UTF-8 without control \
         characters)"
    );
    Err(InvalidInput::new(kind, message))
}

/// Returns the start of a refused text for an error message, escaped.
fn excerpt(text: &str) -> String {
    const SHOWN: usize = 40;
    let start: String = text.chars().take(SHOWN).collect();
    let mut shown = Readable::new(&start).to_string();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

macro_rules! text {
    ($type:ident) => {
        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        /// For people: escapes characters that are invisible or reorder text.
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&Readable::new(&self.0).to_string())
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl std::str::FromStr for $type {
            type Err = InvalidInput;

            fn from_str(text: &str) -> Result<Self, InvalidInput> {
                Self::new(text)
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::new(text).map_err(serde::de::Error::custom)
            }
        }
    };
}

text!(LockName);
text!(Label);
text!(Occurrence);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c01_a_name_is_1_to_512_bytes_without_control_characters() {
        for good in ["a", " ", "a/b", "{x}", "*?[", "ü🔒", "'; DROP TABLE x", &"n".repeat(512)] {
            assert_eq!(LockName::new(good).expect(good).as_str(), good);
        }
        let million = "n".repeat(1 << 20);
        for bad in ["", "a\0b", "a\nb", "\u{7f}", "*1\r\n$4\r\nPING", &"n".repeat(513), &million] {
            let error = LockName::new(bad).expect_err("a bad name was taken").to_string();
            assert!(error.len() < 300 && !error.contains(['\n', '\0']), "{error}");
        }
    }

    #[test]
    fn c01_a_name_shows_what_cannot_be_seen() {
        let forged = LockName::new("pay\u{202e}lla").expect("a name");
        assert_eq!(forged.to_string(), "pay\\u{202e}lla");
        assert_eq!(format!("{forged:15}|"), "pay\\u{202e}lla |");
        assert_eq!(forged.as_str(), "pay\u{202e}lla");
        assert_eq!(Label::new("web\u{200b}-3").expect("a label").to_string(), "web\\u{200b}-3");
    }

    #[test]
    fn a_label_may_be_empty_but_not_long() {
        assert_eq!(Label::new("").expect("empty").as_str(), "");
        assert!(Label::new("l".repeat(129)).is_err());
        assert!(Label::new("a\tb").is_err());
    }

    #[test]
    fn c42_an_occurrence_is_1_to_512_bytes_without_control_characters() {
        for good in ["2026-11-21", " ", "a/b:c", &"o".repeat(512)] {
            assert_eq!(Occurrence::new(good).expect(good).as_str(), good);
        }
        for bad in ["", "a\nb", &"o".repeat(513)] {
            let error = Occurrence::new(bad).expect_err("a bad occurrence was taken").to_string();
            assert!(error.starts_with("invalid occurrence \"") && error.len() < 300, "{error}");
        }
    }

    /// A text is taken as it is, or refused in one short line. People see no character that hides.
    #[test]
    fn fuzz_names() {
        const WORDS: &[&str] =
            &["a", " ", "/", "{", "}", "%", "*", "\\", "u{", "\u{202e}", "ü", "\n", "\0"];
        lock_fuzz::check(|parts| {
            let text = lock_fuzz::text(WORDS, parts);
            let shown = match LockName::new(&text) {
                Ok(name) => {
                    assert_eq!((name.as_str(), Occurrence::new(&text).is_ok()), (&*text, true));
                    name.to_string()
                }
                Err(refused) => refused.to_string(),
            };
            assert!(!shown.contains(|c: char| c.is_control() || c == '\u{202e}'), "{shown:?}");
            assert!(shown.len() < 600 || LockName::new(&text).is_ok(), "{shown}");
            if let Ok(token) = text.parse::<crate::FencingToken>() {
                assert_eq!(token.to_string().parse(), Ok(token));
            }
        });
    }
}
