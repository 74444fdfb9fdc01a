//! The parameters of a URL: the part behind its question mark.

use std::collections::HashSet;

use percent_encoding::percent_decode_str;

use crate::model::LockError;

/// The parameters of a URL. Each part of the program takes out its own parameters, so that an unknown one can be
/// refused (C49).
///
/// ```
/// use lock_core::backend::UrlParameters;
///
/// let mut parameters = UrlParameters::of("memcached://10.0.0.5?slab=3&prefix=shop%3A");
/// assert_eq!(parameters.take("prefix").as_deref(), Some("shop:"));
/// assert_eq!(parameters.url(), "memcached://10.0.0.5?slab=3");
/// assert_eq!(parameters.base(), "memcached://10.0.0.5");
/// assert!(parameters.refuse_unknown().is_err());
/// ```
#[derive(Clone)]
pub struct UrlParameters {
    base: String,
    /// Percent-encoded, as in the URL.
    pairs: Vec<String>,
    /// The part behind `#`.
    fragment: Option<String>,
    /// True if an `@` follows the base, which may then be the start of a password.
    has_late_at: bool,
}

impl UrlParameters {
    /// The parameters of `url`.
    pub fn of(url: &str) -> Self {
        let (url, fragment) = match url.split_once('#') {
            Some((url, fragment)) => (url, Some(fragment.to_owned())),
            None => (url, None),
        };
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(str::to_owned).collect();
        let has_late_at =
            query.contains('@') || fragment.as_ref().is_some_and(|text| text.contains('@'));
        Self { base: base.to_owned(), pairs, fragment, has_late_at }
    }

    /// Takes a parameter out, and returns its value, percent-decoded. If the parameter occurs several times, the others
    /// stay, and [`refuse_unless`](Self::refuse_unless) refuses them.
    pub fn take(&mut self, key: &str) -> Option<String> {
        let pair = self.pairs.remove(self.pairs.iter().position(|pair| key_of(pair) == key)?);
        Some(decoded(pair.split_once('=').map_or("", |(_, value)| value)))
    }

    /// Takes the fragment out: the text behind `#`, not decoded.
    pub fn take_fragment(&mut self) -> Option<String> {
        self.fragment.take()
    }

    /// Returns the URL without the parts that were taken out.
    pub fn url(&self) -> String {
        let mut url = self.base.clone();
        if !self.pairs.is_empty() {
            url += &format!("?{}", self.pairs.join("&"));
        }
        if let Some(fragment) = &self.fragment {
            url += &format!("#{fragment}");
        }
        url
    }

    /// The URL without any parameter, and without its fragment.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Names the store for people: the URL without user, password and parameters.
    ///
    /// ```
    /// # use lock_core::backend::UrlParameters;
    /// let url = UrlParameters::of("redis://shop:pa55word@10.0.0.5:6380/3?prefix=a:");
    /// assert_eq!(url.shown(), "redis://10.0.0.5:6380/3");
    /// ```
    pub fn shown(&self) -> String {
        // C32: the password is also left out if it has characters that should be percent-encoded. After a `?` or
        // `#` in a password, the `@` is not in the base. A URL may lack its scheme. A file's path may contain an `@`.
        let (scheme, rest) = self.base.split_once(':').unwrap_or(("", &self.base));
        match (rest.strip_prefix("//"), rest.rsplit_once('@')) {
            _ if scheme.contains('@') => "…".to_owned(),
            (Some(_), None) if self.has_late_at => format!("{scheme}://…"),
            (Some(_), Some((_, hosts))) => format!("{scheme}://{hosts}"),
            (None, at) if scheme != "file" && (at.is_some() || self.has_late_at) => {
                format!("{scheme}:…")
            }
            (None, Some((login, _))) if login.contains(':') => format!("{scheme}:…"),
            _ => self.base.clone(),
        }
    }

    /// Refuses the remaining parameters, except for the keys that the driver knows by `is_known`, each once.
    ///
    /// # Errors
    /// [`LockError::Config`], which names the parameter. Its value is not repeated: it may be a secret.
    pub fn refuse_unless(&self, is_known: impl Fn(&str) -> bool) -> Result<(), LockError> {
        // C49: a misspelt parameter must not be ignored.
        let mut seen = HashSet::new();
        let mut keys = self.pairs.iter().map(|pair| key_of(pair));
        let unknown = keys.find(|key| !is_known(key) || !seen.insert(key.clone()));
        match (unknown, &self.fragment) {
            (None, None) => Ok(()),
            (Some(key), _) => Err(self.refusal(&key)),
            (None, Some(_)) => Err(config(format!("the URL has a `#`, {IN_A_PASSWORD}"))),
        }
    }

    /// Refuses all remaining parameters.
    ///
    /// # Errors
    /// As [`refuse_unless`](Self::refuse_unless).
    pub fn refuse_unknown(&self) -> Result<(), LockError> {
        self.refuse_unless(|_| false)
    }

    /// C32: in a password with a `?`, the rest looks like parameters. They end at the `@` before the host.
    fn refusal(&self, key: &str) -> LockError {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.[]".contains(c);
        let may_be_secret = self.pairs.iter().any(|pair| pair.contains('@'));
        match key.chars().all(is_word) && key.len() <= LONGEST_SHOWN && !may_be_secret {
            true => config(format!(
                "the URL has a parameter `{key}` that this backend does not know, or has it twice"
            )),
            false => {
                config(format!("the URL has an unknown parameter after its `?`, {IN_A_PASSWORD}"))
            }
        }
    }
}

/// Longest key that an error shows. A longer key is no misspelt word.
const LONGEST_SHOWN: usize = 40;

const IN_A_PASSWORD: &str =
    "which has no meaning there; in a password write %3F for `?` and %23 for `#`";

fn key_of(pair: &str) -> String {
    decoded(pair.split_once('=').map_or(pair, |(key, _)| key))
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn config(message: String) -> LockError {
    LockError::Config { message }
}

impl std::fmt::Debug for UrlParameters {
    /// Shows nothing of the URL, which may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UrlParameters").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        UrlParameters::of(url).refuse_unknown().expect_err(url).to_string()
    }

    #[test]
    fn c49_an_unknown_parameter_is_refused_without_its_value() {
        let mut parameters = UrlParameters::of("x://h?db=1&&pass=secret&flag");
        assert_eq!(parameters.take("db").as_deref(), Some("1"));
        assert_eq!(parameters.take("db"), None);
        assert_eq!(parameters.take("flag").as_deref(), Some(""));
        assert!(parameters.refuse_unless(|key| key == "pass").is_ok());
        let refused = parameters.refuse_unknown().expect_err("unknown").to_string();
        assert!(refused.contains("`pass`") && !refused.contains("secret"), "{refused}");
        assert!(!format!("{parameters:?}").contains("secret"));
        assert!(UrlParameters::of("x://h?").refuse_unknown().is_ok());
    }

    #[test]
    fn c49_a_key_may_be_percent_encoded() {
        let mut parameters = UrlParameters::of("x://h?d%62=2%2Fa&c=3");
        assert_eq!(parameters.take("db").as_deref(), Some("2/a"));
        assert_eq!(parameters.url(), "x://h?c=3");
    }

    /// C49: neither of two values may be ignored.
    #[test]
    fn c49_a_parameter_that_occurs_twice_is_refused() {
        let mut parameters = UrlParameters::of("x://h?d%62=1&protocol=2&db=2");
        assert_eq!(parameters.take("db").as_deref(), Some("1"));
        let known = |key: &str| key == "protocol";
        let refused = parameters.refuse_unless(known).expect_err("twice").to_string();
        assert!(refused.contains("`db`") && refused.contains("twice"), "{refused}");
        let twice = UrlParameters::of("x://h?protocol=2&protocol=3").refuse_unless(known);
        assert!(twice.expect_err("twice").to_string().contains("`protocol`"));
    }

    #[test]
    fn c49_a_fragment_is_no_part_of_a_value_and_is_refused_unless_it_is_known() {
        let mut parameters = UrlParameters::of("x://h?prefix=shop:#insecure");
        assert_eq!(parameters.take("prefix").as_deref(), Some("shop:"));
        assert_eq!((parameters.url(), parameters.base()), ("x://h#insecure".into(), "x://h"));
        assert!(parameters.refuse_unknown().is_err());
        assert_eq!(parameters.take_fragment().as_deref(), Some("insecure"));
        assert!(parameters.refuse_unknown().is_ok());
    }

    /// A raw `?` or `#` in a password, and the text behind it, is part of the password.
    #[test]
    fn c32_a_part_of_a_password_is_never_taken_for_a_name() {
        for url in [
            "x://u:a?secret@h", "x://u:a?secret=1@h", "x://u:a?b&secret=1&c@h/d",
            "x://u:a#secret@h",
        ] {
            let text = refusal(url);
            assert!(!text.contains("secret") && text.contains("password"), "{text}");
        }
        assert!(!refusal("x://h?\u{202e}=1").contains('\u{202e}'));
    }

    #[test]
    fn c32_a_store_is_named_without_secrets() {
        for (url, shown) in [
            ("redis://u:sec@ret@h:1/3?prefix=a:", "redis://h:1/3"),
            ("redis-quorum://:secret@a,b,c", "redis-quorum://a,b,c"),
            ("redis-sentinel://a/m?sentinel_pass=secret", "redis-sentinel://a/m"),
            ("redis+unix:///x?pass=secret", "redis+unix:///x"),
            ("postgres://h/db?password=secret", "postgres://h/db"),
            ("file:/var/lib/locks", "file:/var/lib/locks"),
            ("file:/home/me@work/locks", "file:/home/me@work/locks"),
            ("redis://u:sec?ret@h/3", "redis://…"),
            ("redis://u:sec#ret@h/3", "redis://…"),
            ("redis:u:secret@h", "redis:…"),
            ("u:secret@h:6379", "u:…"),
            (":secret@h", ":…"),
            ("secret@h", ":…"),
            ("secret@h:6379", "…"),
            ("u:/secret@h:6379", "u:…"),
            ("u:sec?ret@h:6379", "u:…"),
            ("redis:u:sec#ret@h", "redis:…"),
        ] {
            assert_eq!(UrlParameters::of(url).shown(), shown);
        }
    }

    /// No text about a URL shows a part of its password, and all parts of a URL make the URL.
    #[test]
    fn fuzz_urls() {
        const SCHEMES: &[&str] = &["x", "redis-quorum", "redis+unix", "file", ""];
        lock_fuzz::check(|(choice, parts)| {
            let url = lock_fuzz::url(SCHEMES, *choice, parts);
            let mut parameters = UrlParameters::of(&url);
            assert_eq!(UrlParameters::of(&parameters.url()).url(), parameters.url());
            let refused = parameters
                .refuse_unknown()
                .map_or_else(|error| error.to_string(), |()| String::new());
            let shown = format!("{refused} {parameters:?} {}", parameters.shown());
            lock_fuzz::assert_secret_is_kept(&shown, &url);
            let _ = (parameters.take("db"), parameters.take_fragment());
            lock_fuzz::assert_secret_is_kept(&parameters.shown(), &url);
        });
    }
}
