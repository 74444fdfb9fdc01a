//! Openers of URLs, by scheme.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use lock_core::{CredentialProvider, DistributedLock, LockError, Readable};

pub(super) type Open = dyn Fn(String, Option<Provider>) -> Opening + Send + Sync;
pub(super) type Provider = Arc<dyn CredentialProvider>;
pub(super) type Opening = Pin<Box<dyn Future<Output = Opened> + Send>>;
pub(super) type Opened = Result<Arc<dyn DistributedLock>, LockError>;

/// Openers of URLs, by scheme.
#[derive(Clone, Default)]
pub(super) struct Schemes {
    known: BTreeMap<String, Arc<Open>>,
    /// Schemes of this crate whose backend is not compiled in, with their features.
    missing: BTreeMap<&'static str, &'static str>,
}

impl Schemes {
    /// Adds a scheme, or replaces its opener.
    pub(super) fn with<B, F>(
        mut self,
        scheme: impl Into<String>,
        open: impl Fn(String, Option<Provider>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        B: DistributedLock,
        F: Future<Output = Result<B, LockError>> + Send + 'static,
    {
        let open = move |url, provider| -> Opening {
            let opening = open(url, provider);
            Box::pin(async { Ok(Arc::new(opening.await?) as Arc<dyn DistributedLock>) })
        };
        let scheme = scheme.into();
        self.missing.remove(&*scheme);
        self.known.insert(scheme, Arc::new(open));
        self
    }

    /// Adds a scheme whose backend is not compiled in.
    #[allow(dead_code)]
    pub(super) fn lacking(mut self, scheme: &'static str, feature: &'static str) -> Self {
        self.missing.insert(scheme, feature);
        self
    }

    /// Returns the known schemes, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.known.keys().map(String::as_str)
    }

    /// Returns the opener of `url`.
    pub(super) fn open(&self, url: &str) -> Result<&Open, LockError> {
        let (scheme, _) = url.split_once(':').ok_or_else(|| self.no_scheme())?;
        self.known.get(scheme).map(|open| &**open).ok_or_else(|| self.unknown(scheme))
    }

    fn no_scheme(&self) -> LockError {
        config(format!("a lock URL starts with its scheme: {}", self.all()))
    }

    fn unknown(&self, scheme: &str) -> LockError {
        if let Some(feature) = self.missing.get(scheme) {
            return config(format!(
                "`{scheme}:` is not compiled in: enable the feature {feature} of `leasehold`"
            ));
        }
        // C32: without a scheme, the text before the first `:` may be a login.
        let shown: String = match scheme.contains('@') {
            true => "…".to_owned(),
            false => scheme.chars().take(20).collect(),
        };
        let shown = Readable::new(&shown);
        config(format!("no backend is called `{shown}`: there are {}", self.all()))
    }

    /// Lists the possible starts of a URL.
    fn all(&self) -> String {
        let mut all: Vec<&str> = self.names().chain(self.missing.keys().copied()).collect();
        all.sort_unstable();
        all.iter().map(|scheme| format!("{scheme}:")).collect::<Vec<_>>().join(", ")
    }
}

/// Error for a URL that cannot be used.
pub(super) fn config(message: impl Into<String>) -> LockError {
    LockError::Config { message: message.into() }
}
