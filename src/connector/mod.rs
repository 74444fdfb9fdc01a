//! Chooses a backend by URL.

mod built_in;
mod schemes;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Prefixed, UrlParameters};
use lock_core::{
    ClientOptions, CredentialProvider, DistributedLock, LockClient, LockError, LockName,
};

use tokio::time::{Instant, sleep};

use self::schemes::{Opened, Opening, Provider, Schemes, config};

/// Pauses between attempts to connect.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Connects to locks by URL, with the backends of this crate and further ones.
///
/// [`connect`](crate::connect()) does the same without further backends.
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
    schemes: Schemes,
    patience: Duration,
    provider: Option<Provider>,
}

impl Connector {
    /// Creates a connector for the backends of this crate. For a backend that is not compiled in, it names the
    /// feature.
    pub fn new() -> Self {
        Self { schemes: built_in::all(), patience: Duration::ZERO, provider: None }
    }

    /// Opens URLs that start with `scheme` and a colon by `open`.
    ///
    /// `open` gets the whole URL, without the parameter `prefix`, which works for every backend. It must refuse
    /// parameters that it does not know: [`UrlParameters`] helps. A second call with the same scheme replaces the
    /// first.
    pub fn scheme<B, F>(
        self,
        scheme: impl Into<String>,
        open: impl Fn(String) -> F + Send + Sync + 'static,
    ) -> Self
    where
        B: DistributedLock,
        F: Future<Output = Result<B, LockError>> + Send + 'static,
    {
        let open = move |url, _| open(url);
        Self { schemes: self.schemes.with(scheme, open), ..self }
    }

    /// Keeps trying for this long to connect to a server that is down; default zero, which is one attempt.
    ///
    /// So a service can start together with its store, or while the store restarts. The pause between two
    /// attempts grows from 50 ms to 1 s. A lasting error, such as a wrong password, ends the attempts at once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), leasehold::LockError> {
    /// # use std::time::Duration;
    /// let connector = leasehold::Connector::new().retry_for(Duration::from_secs(30));
    /// let locks = connector.connect("memory:").await?;
    /// # Ok(()) }
    /// ```
    pub fn retry_for(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Asks `provider` for user and password at each connection to a server, in place of those of the URL; has no effect
    /// on memory, files and [further schemes](Self::scheme).
    pub fn credentials(self, provider: impl CredentialProvider) -> Self {
        Self { provider: Some(Arc::new(provider)), ..self }
    }

    /// Returns the schemes of its URLs, sorted, such as for a help text.
    ///
    /// ```
    /// # use leasehold::Connector;
    /// assert!(Connector::new().schemes().any(|scheme| scheme == "file"));
    /// ```
    pub fn schemes(&self) -> impl Iterator<Item = &str> {
        self.schemes.names()
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
        Ok(LockClient::from_arc(self.backend(url).await?, options))
    }

    /// Opens the backend at `url`.
    ///
    /// # Errors
    /// As [`connect`](crate::connect()).
    ///
    /// # Cancel safety
    /// As [`connect`](crate::connect()).
    pub async fn backend(&self, url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
        let open = self.schemes.open(url)?;
        let mut parameters = UrlParameters::of(url);
        let prefix = prefix(&mut parameters)?;
        let opened = self.patiently(|| open(parameters.url(), self.provider.clone())).await;
        let backend = opened.map_err(|error| named(error, &parameters))?;
        match prefix {
            None => Ok(backend),
            Some(prefix) => Ok(Arc::new(Prefixed::new(backend, prefix.as_str())?)),
        }
    }

    /// Opens repeatedly until it succeeds, the error is a lasting one, or the patience is over.
    async fn patiently(&self, open: impl Fn() -> Opening) -> Opened {
        let (started, mut pause) = (Instant::now(), SHORTEST_PAUSE);
        loop {
            let opened = open().await;
            let left = self.patience.saturating_sub(started.elapsed());
            match opened {
                Err(error) if error.is_transient() && !left.is_zero() => {
                    sleep(pause.min(left)).await;
                    pause = LONGEST_PAUSE.min(pause * 2);
                }
                opened => return opened,
            }
        }
    }
}

impl Default for Connector {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schemes: Vec<&str> = self.schemes().collect();
        f.debug_struct("Connector").field("schemes", &schemes).finish()
    }
}

/// Adds the server's name to an error of the backend.
fn named(error: LockError, url: &UrlParameters) -> LockError {
    match error {
        LockError::Backend { operation, name, source } => {
            LockError::Backend { operation, name, source: source.at(&url.shown()) }
        }
        error => error,
    }
}

/// Returns the prefix of all names (C49); `None` if it is empty.
fn prefix(parameters: &mut UrlParameters) -> Result<Option<LockName>, LockError> {
    let Some(prefix) = parameters.take("prefix").filter(|prefix| !prefix.is_empty()) else {
        return Ok(None);
    };
    // Two prefixes that are not UTF-8 would look alike, and their locks would exclude each other.
    let is_text = !prefix.contains(char::REPLACEMENT_CHARACTER);
    let name =
        LockName::new(&prefix).ok().filter(|_| is_text && prefix.len() < LockName::MAX_BYTES);
    name.map(Some).ok_or_else(|| {
        config("`prefix` in the URL must be UTF-8 without control characters, and shorter than the longest name")
    })
}
