//! Passwords of URLs stay out of all we print, also where somebody else's text repeats them.

/// `text` without what stands between `://` and `@`, or after `pass=`.
pub(crate) fn redacted(text: &str) -> String {
    let words = text.split_inclusive(|c: char| c.is_whitespace() || c == '\'' || c == '"');
    words.map(|word| without_query_password(&without_user(word))).collect()
}

fn without_user(word: &str) -> String {
    match word.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?))) {
        Some((scheme, (_, host))) => format!("{scheme}://…@{host}"),
        None => word.to_owned(),
    }
}

fn without_query_password(word: &str) -> String {
    let Some((before, secret)) = word.split_once("pass=") else {
        return word.to_owned();
    };
    let end = secret.find(|c: char| "&'\"".contains(c) || c.is_whitespace());
    format!("{before}pass=…{}", end.map_or("", |end| &secret[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c32_no_password_of_a_url_is_left() {
        for (text, shown) in [
            ("unexpected 'redis://u:secret@h:1/' found", "unexpected 'redis://…@h:1/' found"),
            ("redis://:sec@ret@h", "redis://…@h"),
            ("a redis+unix:///x?pass=secret&db=1 b", "a redis+unix:///x?pass=…&db=1 b"),
            ("'redis+unix:///x?pass=secret'", "'redis+unix:///x?pass=…'"),
            ("file:/a mail@host\n", "file:/a mail@host\n"),
        ] {
            assert_eq!(redacted(text), shown);
        }
    }
}
