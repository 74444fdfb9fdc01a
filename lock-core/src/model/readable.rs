//! Text of strangers, as people may read it.

use std::fmt::{self, Write};
use std::iter::repeat_n;

/// Shows a text with the characters escaped that cannot be seen, or that reorder what is seen: so that
/// what an operator reads is what stands there.
///
/// What can be seen stays as it is, in any script. Letters that look alike are not told apart.
///
/// No two texts are shown alike because of an escape: backslashes are doubled where what follows is an
/// escape or could pass for one. So an odd number of backslashes before `u{` is an escape, and an even
/// number stands in the text.
pub(super) struct Readable<'a>(pub(super) &'a str);

impl fmt::Display for Readable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(mut rest) = *self;
        while let Some(next) = rest.chars().next() {
            if next == '\\' {
                let after = rest.trim_start_matches('\\');
                let count = rest.len() - after.len();
                repeat_n('\\', count * factor(after)).try_for_each(|mark| f.write_char(mark))?;
                rest = after;
            } else {
                match is_hidden(next) {
                    true => write!(f, "{}", next.escape_unicode())?,
                    false => f.write_char(next)?,
                }
                rest = &rest[next.len_utf8()..];
            }
        }
        Ok(())
    }
}

/// How many backslashes stand for one, before `rest`.
fn factor(rest: &str) -> usize {
    let is_escaped = rest.starts_with("u{") || rest.chars().next().is_some_and(is_hidden);
    if is_escaped { 2 } else { 1 }
}

/// Whether a character cannot be seen, or reorders those that can.
fn is_hidden(character: char) -> bool {
    if character.is_ascii_graphic() || character == ' ' {
        return false;
    }
    character.is_control() || is_blank(character) || {
        // After a letter, where a combining mark can be seen.
        let shown = ['a', character].iter().collect::<String>();
        let escaped = shown.escape_debug().skip(1).take(2).collect::<String>();
        escaped == "\\u"
    }
}

/// Characters that count as letters or marks, and draw nothing.
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
        Readable(text).to_string()
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
            '\n',
            '\u{1b}',
            '\u{202e}',
            '\u{2066}',
            '\u{200b}',
            '\u{2028}',
            '\u{feff}',
            '\u{200f}',
            '\u{ad}',
            '\u{fe0f}',
            '\u{e0100}',
            '\u{34f}',
            '\u{115f}',
            '\u{3164}',
            '\u{ffa0}',
            '\u{2800}',
            '\u{e0041}',
        ];
        for hidden in hidden {
            let escaped = format!("a\\u{{{:x}}}b", hidden as u32);
            assert_eq!(shown(&format!("a{hidden}b")), escaped);
        }
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
