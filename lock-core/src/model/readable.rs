//! Text of strangers, as people may read it.

use std::fmt::{self, Write};

/// Shows a text with every character escaped that cannot be seen, or that reorders what is seen: so
/// that what an operator reads cannot be forged.
///
/// What can be seen stays as it is, in any script. A backslash is doubled where it would look like the
/// start of an escape, so that two texts never look alike because of one.
pub(super) struct Readable<'a>(pub(super) &'a str);

impl fmt::Display for Readable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        let mut rest = *text;
        while let Some(at) = rest.find(['\'', '"', '\\']) {
            let (before, from) = rest.split_at(at);
            write!(f, "{}", before.escape_debug())?;
            if from.starts_with("\\u{") {
                f.write_char('\\')?;
            }
            let (mark, after) = from.split_at(1);
            f.write_str(mark)?;
            rest = after;
        }
        write!(f, "{}", rest.escape_debug())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        Readable(text).to_string()
    }

    #[test]
    fn what_can_be_seen_stays_as_it_is() {
        for text in
            ["stock:42", "a b/c", "it's \"x\"", "c:\\dir", "ü🔒", "日本", "e\u{301}", "{x}%*"]
        {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        let unseen =
            ['\u{202e}', '\u{2066}', '\u{200b}', '\u{2028}', '\u{feff}', '\u{200f}', '\u{ad}'];
        for unseen in unseen {
            let escaped = format!("a\\u{{{:x}}}b", unseen as u32);
            assert_eq!(shown(&format!("a{unseen}b")), escaped);
        }
    }

    #[test]
    fn an_escape_cannot_be_forged() {
        assert_eq!(shown("a\\u{202e}b"), "a\\\\u{202e}b");
        assert_ne!(shown("a\\u{202e}b"), shown("a\u{202e}b"));
    }
}
