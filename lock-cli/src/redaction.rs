//! Keeps passwords of URLs out of all output, also in texts of others that repeat them.

/// Words of a URL's query that begin a password.
const QUERY: [&str; 2] = ["pass=", "password="];

/// User and password in the form of a URL that an error of a backend describes.
const FORM: &str = "[user:password";

/// Returns `text` without the parts between `://` and `@`, and after `pass=` or `password=`.
pub(crate) fn redacted(text: &str) -> String {
    // C32: a text of others may repeat a URL.
    let words = text.split_inclusive(char::is_whitespace);
    words.map(|word| without_query_password(&without_user(word))).collect()
}

/// Returns `text` without the URLs among `words`, which were typed in the wrong place. A password in them may hold
/// characters at which [`redacted`] would stop.
pub(crate) fn without_urls(text: &str, words: impl Iterator<Item = String>) -> String {
    let urls = words.filter_map(|word| url_in(&word).map(str::to_owned));
    redacted(&urls.fold(text.to_owned(), |text, url| text.replace(&url, "[URL]")))
}

/// Returns true if `word` is a URL with a password.
pub(crate) fn holds_password(word: &str) -> bool {
    url_in(word).is_some_and(|url| without_query_password(&without_user(url)) != url)
}

/// Returns the part of `word` from a scheme and `:/` to its end.
fn url_in(word: &str) -> Option<&str> {
    let scheme = &word[..word.find(":/")?];
    let in_scheme = |c: char| c.is_ascii_alphanumeric() || "+-".contains(c);
    Some(&word[scheme.trim_end_matches(in_scheme).len()..])
}

fn without_user(word: &str) -> String {
    match word.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?))) {
        Some((scheme, (user, host))) if user != FORM => format!("{scheme}://…@{host}"),
        _ => word.to_owned(),
    }
}

fn without_query_password(word: &str) -> String {
    let lower = word.to_ascii_lowercase();
    let starts = QUERY.iter().filter_map(|key| Some(lower.find(key)? + key.len()));
    let Some(start) = starts.min() else {
        return word.to_owned();
    };
    let (before, secret) = word.split_at(start);
    let end = secret.find(|c: char| "&'\"".contains(c) || c.is_whitespace());
    let rest = end.map_or_else(String::new, |end| without_query_password(&secret[end..]));
    format!("{before}…{rest}")
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;
    use leasehold::Connector;
    use leasehold::core::Readable;

    use super::*;
    use crate::args::{Cli, command};

    #[test]
    fn c32_no_password_of_a_url_is_left() {
        for (text, shown) in [
            ("unexpected 'redis://u:secret@h:1/' found", "unexpected 'redis://…@h:1/' found"),
            ("redis://:sec@ret@h", "redis://…@h"),
            ("redis-cluster://:secret@a,b:1", "redis-cluster://…@a,b:1"),
            (
                "redis-sentinel://a/m?sentinel_pass=secret&db=1",
                "redis-sentinel://a/m?sentinel_pass=…&db=1",
            ),
            ("'redis://u:se'cr\"et@h' x", "'redis://…@h' x"),
            ("a redis+unix:///x?pass=secret&db=1 b", "a redis+unix:///x?pass=…&db=1 b"),
            ("'redis+unix:///x?pass=secret'", "'redis+unix:///x?pass=…'"),
            ("redis+unix:/x?PASS=secret", "redis+unix:/x?PASS=…"),
            ("postgres:///x?Password=a&pass=b&c", "postgres:///x?Password=…&pass=…&c"),
            ("file:/a mail@host\n", "file:/a mail@host\n"),
            (
                "form redis-…://[user:password@]host[:port]",
                "form redis-…://[user:password@]host[:port]",
            ),
            ("etcd://[user:password@]h etcd://u:secret@h", "etcd://[user:password@]h etcd://…@h"),
            ("redis://[user:password@u:secret@h", "redis://…@h"),
        ] {
            assert_eq!(redacted(text), shown);
        }
    }

    #[test]
    fn c32_a_url_that_was_typed_is_taken_out_whole() {
        for (text, word, shown) in [
            ("no 'redis://u:a b'c@h' here", "redis://u:a b'c@h", "no '[URL]' here"),
            ("no 'rediss:/x?y' here", "--ttl=rediss:/x?y", "no '[URL]' here"),
            ("no 'redis+unix:/x' here", "redis+unix:/x", "no '[URL]' here"),
            ("no 'rum' here", "rum", "no 'rum' here"),
        ] {
            assert_eq!(without_urls(text, [word.to_owned()].into_iter()), shown);
        }
    }

    /// No password of a URL is left in a text, wherever the URL stands in it.
    #[test]
    fn fuzz_redaction() {
        const SCHEMES: [&str; 5] = ["redis", "redis-sentinel", "postgres", "etcd", "zookeeper"];
        const AROUND: &[&str] =
            &["'", "\"", " ", "=", "a", "://", "@", ":/", "redis", "pass=", "\n"];
        lock_fuzz::check(|(choice, parts, before, behind)| {
            let url = lock_fuzz::url(&SCHEMES, *choice, parts);
            let [before, behind] = [before, behind].map(|parts| lock_fuzz::text(AROUND, parts));
            let text = format!("{before}{url}{behind}");
            lock_fuzz::assert_secret_is_kept(
                &without_urls(&text, [url.clone()].into_iter()),
                &text,
            );
            assert!(holds_password(&url), "{url}");
            if !url.contains(char::is_whitespace) {
                lock_fuzz::assert_secret_is_kept(&redacted(&text), &text);
            }
        });
    }

    /// Words of the command line.
    const WORDS: &[&str] = &[
        "run", "hold", "elect", "leader", "inspect", "ps", "watch", "release", "doctor", "schema",
        "man", "completions", "a", "--", "--url", "--wait", "10s", "--limit", "3", "--take",
        "--shared", "--json", "--force", "--owner", "1a2b3c4d", "-n", "-v", "--ttl", "--label",
        "--once", "--at-least", "--json-lines", "postgres",
    ];

    /// Any words are a command, or are refused without the password of a URL among them.
    #[test]
    fn fuzz_words() {
        lock_fuzz::check(|(words, choice, parts): &(lock_fuzz::Parts, u8, _)| {
            // No argument of a process has a NUL.
            let url = lock_fuzz::url(&["redis", "file", "postgres"], *choice, parts);
            let url = url.replace('\0', "");
            let words = words.iter().take(8).map(|(choice, number)| match choice {
                0..192 => WORDS[usize::from(*choice) % WORDS.len()].to_owned(),
                192..224 => format!("--url={url}"),
                224..240 => url.clone(),
                _ => lock_fuzz::any_text(*number),
            });
            let words: Vec<String> = std::iter::once("leasehold".to_owned()).chain(words).collect();
            let parsed = command(&Connector::new()).try_get_matches_from(&words);
            if let Err(refused) = parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
                let told = without_urls(&refused.render().to_string(), words.iter().cloned());
                let told = Readable::again(&told).keeping(&['\n']).to_string();
                lock_fuzz::assert_secret_is_kept(&told, &url);
            }
        });
    }
}
