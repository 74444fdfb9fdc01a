//! Which backend a URL chooses.

mod built_in;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use lock_core::backend::{Prefixed, UrlParameters};
use lock_core::{ClientOptions, DistributedLock, LockClient, LockError, Readable};

/// Connects to locks by URL: those of this crate, and those of further backends.
///
/// [`connect`](crate::connect()) is the same without further backends.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), leasehold::LockError> {
/// use leasehold::{Connector, MemoryBackend};
///
/// let connector = Connector::new()
///     .scheme("toy", |_url| async { Ok(MemoryBackend::new()) });
/// let locks = connector.connect("toy://anywhere?prefix=shop:").await?;
/// let guard = locks.acquire("stock:42").await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a connector does nothing until it connects"]
pub struct Connector {
    schemes: BTreeMap<String, Arc<Open>>,
    /// Schemes of this crate whose backend is not compiled in, and which features bring it.
    missing: BTreeMap<&'static str, &'static str>,
}

type Open = dyn Fn(String) -> Opening + Send + Sync;
type Opening = Pin<Box<dyn Future<Output = Opened> + Send>>;
type Opened = Result<Arc<dyn DistributedLock>, LockError>;

impl Connector {
    /// Knows the backends of this crate: those that are compiled in, and of the others which feature
    /// brings them.
    pub fn new() -> Self {
        built_in::all(Self { schemes: BTreeMap::new(), missing: BTreeMap::new() })
    }

    /// Lets `open` open the URLs that start with `scheme` and a colon.
    ///
    /// It is given the whole URL, without the parameter `prefix`, which works for every backend. It refuses
    /// parameters that it does not know: [`UrlParameters`] helps. A scheme that is known already is
    /// replaced.
    pub fn scheme<B, F>(
        mut self,
        scheme: impl Into<String>,
        open: impl Fn(String) -> F + Send + Sync + 'static,
    ) -> Self
    where
        B: DistributedLock,
        F: Future<Output = Result<B, LockError>> + Send + 'static,
    {
        let open = move |url| -> Opening {
            let opening = open(url);
            Box::pin(async { Ok(Arc::new(opening.await?) as Arc<dyn DistributedLock>) })
        };
        let scheme = scheme.into();
        self.missing.remove(&*scheme);
        self.schemes.insert(scheme, Arc::new(open));
        self
    }

    /// The schemes whose URLs it opens, sorted: what a help text names.
    ///
    /// ```
    /// # use leasehold::Connector;
    /// assert!(Connector::new().schemes().any(|scheme| scheme == "file"));
    /// ```
    pub fn schemes(&self) -> impl Iterator<Item = &str> {
        self.schemes.keys().map(String::as_str)
    }

    /// Connects to the locks at `url`.
    ///
    /// # Errors
    /// As [`connect`](crate::connect()).
    ///
    /// # Cancel safety
    /// As [`connect`](crate::connect()).
    pub async fn connect(&self, url: &str) -> Result<LockClient, LockError> {
        self.connect_with(url, ClientOptions::default()).await
    }

    /// Connects to the locks at `url`, with options.
    ///
    /// # Errors
    /// As [`connect`](crate::connect()).
    ///
    /// # Cancel safety
    /// As [`connect`](crate::connect()).
    pub async fn connect_with(
        &self,
        url: &str,
        options: ClientOptions,
    ) -> Result<LockClient, LockError> {
        Ok(LockClient::with_options(self.backend(url).await?, options))
    }

    /// Opens the backend at `url`.
    ///
    /// # Errors
    /// As [`connect`](crate::connect()).
    ///
    /// # Cancel safety
    /// As [`connect`](crate::connect()).
    pub async fn backend(&self, url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
        let (scheme, _) = url.split_once(':').ok_or_else(|| self.no_scheme())?;
        let open = self.schemes.get(scheme).ok_or_else(|| self.unknown(scheme))?;
        let mut parameters = UrlParameters::of(url);
        let prefix = parameters.take("prefix");
        let backend = open(parameters.url()).await?;
        match prefix.filter(|prefix| !prefix.is_empty()) {
            None => Ok(backend),
            Some(prefix) => Ok(Arc::new(Prefixed::new(backend, prefix)?)),
        }
    }

    fn no_scheme(&self) -> LockError {
        config(format!("a lock URL starts with its scheme: {}", self.known()))
    }

    fn unknown(&self, scheme: &str) -> LockError {
        if let Some(feature) = self.missing.get(scheme) {
            return config(format!(
                "`{scheme}:` is not compiled in: enable the feature {feature} of `leasehold`"
            ));
        }
        let shown: String = scheme.chars().take(20).collect();
        let shown = Readable::new(&shown);
        config(format!("no backend is called `{shown}`: there are {}", self.known()))
    }

    /// What a URL can start with.
    fn known(&self) -> String {
        let mut known: Vec<&str> = self.schemes().chain(self.missing.keys().copied()).collect();
        known.sort_unstable();
        known.iter().map(|scheme| format!("{scheme}:")).collect::<Vec<_>>().join(", ")
    }
}

impl Default for Connector {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("schemes", &self.schemes.keys()).finish()
    }
}

fn config(message: impl Into<String>) -> LockError {
    LockError::Config { message: message.into() }
}
