//! What is printed for people hides nothing: no text of a stranger looks like another one.

/// These would be escaped in a literal, but everybody sees them.
const MARKS: [char; 3] = ['\'', '"', '\\'];

/// `text` in one line, with each character escaped that cannot be seen, or that reorders what is seen.
pub(crate) fn visible(text: &str) -> String {
    escaped_but(&MARKS, text)
}

/// The same for a text of several lines, which may have colours.
pub(crate) fn visible_lines(text: &str) -> String {
    let [quote, double_quote, backslash] = MARKS;
    escaped_but(&[quote, double_quote, backslash, '\n', '\u{1b}'], text)
}

fn escaped_but(kept: &[char], text: &str) -> String {
    let parts = text.split_inclusive(kept).map(|part| {
        let before = part.strip_suffix(kept).unwrap_or(part);
        format!("{}{}", before.escape_debug(), &part[before.len()..])
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_seen_stays_as_it_is() {
        for text in ["", "lock \"a\" isn't free: c:\\x", "ü🔒 日本 e\u{301}", "'\"\\"] {
            assert_eq!(visible(text), text);
            assert_eq!(visible(&visible(text)), text);
        }
        assert_eq!(visible_lines("\u{1b}[1ma\u{1b}[0m\n'b'\n"), "\u{1b}[1ma\u{1b}[0m\n'b'\n");
    }

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        assert_eq!(visible("pay\u{202e}lla \"\u{200b}\""), "pay\\u{202e}lla \"\\u{200b}\"");
        assert_eq!(visible("a\nb\u{1b}[2J"), "a\\nb\\u{1b}[2J");
        assert_eq!(visible_lines("a\u{2066}\n\u{feff}"), "a\\u{2066}\n\\u{feff}");
    }
}
