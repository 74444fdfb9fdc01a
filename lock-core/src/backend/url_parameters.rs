//! The parameters of a URL: what stands behind its question mark.

use percent_encoding::percent_decode_str;

use crate::model::{LockError, Readable};

/// The parameters of a URL, each taken out by whom it concerns, so that one that nobody knows is refused
/// (C49).
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
    /// As they stand in the URL.
    pairs: Vec<String>,
}

impl UrlParameters {
    /// The parameters of `url`.
    pub fn of(url: &str) -> Self {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(str::to_owned).collect();
        Self { base: base.to_owned(), pairs }
    }

    /// Takes a parameter out: its value, percent-decoded. Of several the last one counts.
    pub fn take(&mut self, key: &str) -> Option<String> {
        let (ours, others) = self.pairs.drain(..).partition(|pair| key_of(pair) == key);
        self.pairs = others;
        let ours: Vec<String> = ours;
        let value = ours.last()?.split_once('=').map_or("", |(_, value)| value);
        Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
    }

    /// The URL without the parameters that were taken.
    pub fn url(&self) -> String {
        match &*self.pairs {
            [] => self.base.clone(),
            pairs => format!("{}?{}", self.base, pairs.join("&")),
        }
    }

    /// The URL without any parameter.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Refuses what is left, but for these keys, which the driver knows.
    ///
    /// # Errors
    /// [`LockError::Config`], which names the parameter. Its value is not repeated: it may be a secret.
    pub fn refuse_all_but(&self, known: &[&str]) -> Result<(), LockError> {
        // C49: a parameter that is misspelt must not be passed over.
        match self.pairs.iter().map(|pair| key_of(pair)).find(|key| !known.contains(key)) {
            None => Ok(()),
            Some(unknown) => Err(LockError::Config { message: refusal(unknown) }),
        }
    }

    /// Refuses whatever is left.
    ///
    /// # Errors
    /// As [`refuse_all_but`](Self::refuse_all_but).
    pub fn refuse_unknown(&self) -> Result<(), LockError> {
        self.refuse_all_but(&[])
    }
}

fn key_of(pair: &str) -> &str {
    pair.split_once('=').map_or(pair, |(key, _)| key)
}

fn refusal(key: &str) -> String {
    let shown: String = key.chars().take(40).collect();
    let shown = Readable::new(&shown);
    format!("the URL has a parameter `{shown}`, which this backend does not know")
}

impl std::fmt::Debug for UrlParameters {
    /// Without values, which may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.pairs.iter().map(|pair| key_of(pair))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c49_an_unknown_parameter_is_refused_without_its_value() {
        let mut parameters = UrlParameters::of("x://h?db=1&&pass=secret&flag");
        assert_eq!(parameters.take("db").as_deref(), Some("1"));
        assert_eq!(parameters.take("db"), None);
        assert_eq!(parameters.take("flag").as_deref(), Some(""));
        assert!(parameters.refuse_all_but(&["pass"]).is_ok());
        let refused = parameters.refuse_unknown().expect_err("unknown").to_string();
        assert!(refused.contains("`pass`") && !refused.contains("secret"), "{refused}");
        assert!(!format!("{parameters:?}").contains("secret"));
        assert!(UrlParameters::of("x://h?").refuse_unknown().is_ok());
    }
}
