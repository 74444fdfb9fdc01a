//! Text of strangers, made safe to read.

use std::fmt::{self, Write};
use std::iter::repeat_n;

/// Shows a text with invisible and reordering characters escaped, so that an operator reads the real text.
///
/// Visible characters stay as they are, in any script. Letters that look alike are not distinguished. `Display` of
/// [`LockName`](crate::LockName) and [`Label`](crate::Label) uses this.
///
/// ```
/// use lock_core::Readable;
///
/// assert_eq!(Readable::new("pay\u{202e}lla").to_string(), "pay\\u{202e}lla");
/// // No two texts are shown alike because of an escape.
/// assert_eq!(Readable::new("pay\\u{202e}lla").to_string(), "pay\\\\u{202e}lla");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Readable<'a> {
    text: &'a str,
    kept: &'a [char],
    holds_readable_parts: bool,
}

impl<'a> Readable<'a> {
    /// Shows `text`, the words of a stranger.
    ///
    /// Different texts are always shown differently: backslashes are doubled before an escape, and before text that
    /// looks like an escape. So an odd number of backslashes before `u{` is an escape, and an even number is in the
    /// text.
    pub fn new(text: &'a str) -> Self {
        Self { text, kept: &[], holds_readable_parts: false }
    }

    /// Shows `text` with parts that are already readable, such as an error that names a lock. Backslashes stay as
    /// they are, so that nothing is escaped twice.
    pub fn again(text: &'a str) -> Self {
        Self { holds_readable_parts: true, ..Self::new(text) }
    }

    /// Leaves these characters as they are, such as the ends of lines.
    #[must_use]
    pub fn keeping(self, kept: &'a [char]) -> Self {
        Self { kept, ..self }
    }

    fn is_escaped(&self, character: char) -> bool {
        is_hidden(character) && !self.kept.contains(&character)
    }

    /// Returns the number of backslashes that one backslash before `rest` becomes.
    fn factor(&self, rest: &str) -> usize {
        let passes_for_escape =
            rest.starts_with("u{") || rest.chars().next().is_some_and(|next| self.is_escaped(next));
        if passes_for_escape && !self.holds_readable_parts { 2 } else { 1 }
    }
}

impl fmt::Display for Readable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.text;
        while let Some(next) = rest.chars().next() {
            if next == '\\' {
                let after = rest.trim_start_matches('\\');
                let count = (rest.len() - after.len()) * self.factor(after);
                repeat_n('\\', count).try_for_each(|mark| f.write_char(mark))?;
                rest = after;
            } else {
                match self.is_escaped(next) {
                    true => write!(f, "{}", next.escape_unicode())?,
                    false => f.write_char(next)?,
                }
                rest = &rest[next.len_utf8()..];
            }
        }
        Ok(())
    }
}

/// Returns true if a character is invisible or reorders visible ones.
fn is_hidden(character: char) -> bool {
    if character.is_ascii_graphic() || character == ' ' {
        return false;
    }
    character.is_control() || is_blank(character) || {
        // After a letter, since a combining mark is visible there.
        let shown = ['a', character].iter().collect::<String>();
        let escaped = shown.escape_debug().skip(1).take(2).collect::<String>();
        escaped == "\\u"
    }
}

/// Returns true for characters that count as letters or marks, and draw nothing.
fn is_blank(character: char) -> bool {
    matches!(character,
        '\u{34f}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{ffa0}'
        | '\u{e0100}'..='\u{e01ef}'
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn shown(text: &str) -> String {
        Readable::new(text).to_string()
    }

    #[test]
    fn what_can_be_seen_stays_as_it_is() {
        for text in
            ["stock:42", "a b/c", "it's \"x\"", "c:\\dir\\", "ü🔒", "日本", "e\u{301}", "{x}%*"]
        {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        let hidden = [
            '\n', '\u{1b}', '\u{202e}', '\u{2066}', '\u{200b}', '\u{2028}', '\u{feff}', '\u{200f}',
            '\u{ad}', '\u{fe0f}', '\u{e0100}', '\u{34f}', '\u{115f}', '\u{3164}', '\u{ffa0}',
            '\u{2800}', '\u{e0041}',
        ];
        for hidden in hidden {
            let escaped = format!("a\\u{{{:x}}}b", hidden as u32);
            assert_eq!(shown(&format!("a{hidden}b")), escaped);
        }
    }

    #[test]
    fn what_was_made_readable_stays_as_it_is() {
        for text in ["pay\u{202e}lla", "\\u{202e}", "c:\\\u{200b}", "isn't"] {
            let once = shown(text);
            assert_eq!(Readable::again(&once).to_string(), once);
        }
        assert_eq!(Readable::again("\\u{202e}\u{200b}\n").to_string(), "\\u{202e}\\u{200b}\\u{a}");
    }

    #[test]
    fn what_is_kept_stays_as_it_is() {
        let coloured = "\u{1b}[1ma\u{1b}[0m\n'b'\n";
        let kept = Readable::again(coloured).keeping(&['\n', '\u{1b}']);
        assert_eq!(kept.to_string(), coloured);
        assert_eq!(Readable::new("a\n\t").keeping(&['\n']).to_string(), "a\n\\u{9}");
    }

    #[test]
    fn no_two_texts_are_shown_alike() {
        let mut texts = vec![String::new()];
        let mut seen = HashMap::new();
        for _ in 0..6 {
            let longer = |text: &String| {
                ["\\", "u{", "200b}", "a", "\u{200b}"].map(|more| format!("{text}{more}"))
            };
            texts = texts.iter().flat_map(longer).collect();
            for text in &texts {
                let other = seen.insert(shown(text), text.clone());
                assert!(other.is_none_or(|other| other == *text), "{text:?} is shown as another");
            }
        }
    }
}
