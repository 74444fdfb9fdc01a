//! Credentials that change, asked for at each connection.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use percent_encoding::percent_decode_str;
use tokio::time::timeout;

use super::url_parameters::UrlParameters;
use crate::model::{BackendError, BoxError, Outcome};

/// Longest wait for a provider.
const LIMIT: Duration = Duration::from_secs(5);

/// Provider of the user and the secret of each new connection: for a secret that is rotated, and for tokens that expire.
///
/// A client asks at each connection, and once more if the server refuses the login. The refusal is lasting only if the
/// second answer is the same as the first, or is refused too. A connection that stands is not affected.
///
/// ```
/// use lock_core::backend::async_trait;
/// use lock_core::{BoxError, CredentialProvider, Credentials};
///
/// struct Tokens;
///
/// #[async_trait]
/// impl CredentialProvider for Tokens {
///     async fn credentials(&self) -> Result<Credentials, BoxError> {
///         Ok(Credentials::new("app", token_of_today().await?))
///     }
/// }
/// # async fn token_of_today() -> Result<String, BoxError> { Ok(String::new()) }
/// ```
#[async_trait]
pub trait CredentialProvider: Send + Sync + 'static {
    /// Returns the credentials as they are now. Keep a token until shortly before its end: each connection waits for the
    /// answer, for at most 5 s, within the time-out of its request.
    ///
    /// # Errors
    /// Any error means that no connection is made now. A retry asks again, so it is never lasting. The text is shown in
    /// logs: put no secret into it.
    ///
    /// # Cancel safety
    /// The future may be dropped at any await.
    async fn credentials(&self) -> Result<Credentials, BoxError>;

    /// Returns the credentials at Redis Sentinels, which know other users than the servers that they name. By default
    /// those of the URL stay.
    ///
    /// # Errors
    /// As [`credentials`](Self::credentials).
    ///
    /// # Cancel safety
    /// As [`credentials`](Self::credentials).
    async fn at_sentinels(&self) -> Result<Credentials, BoxError> {
        Ok(Credentials::default())
    }
}

#[async_trait]
impl<P: CredentialProvider + ?Sized> CredentialProvider for Arc<P> {
    async fn credentials(&self) -> Result<Credentials, BoxError> {
        (**self).credentials().await
    }

    async fn at_sentinels(&self) -> Result<Credentials, BoxError> {
        (**self).at_sentinels().await
    }
}

/// A user and a secret. An empty part leaves that of the URL.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Name of the user.
    pub user: String,
    /// Password or token.
    pub secret: String,
}

impl Credentials {
    /// Returns credentials of a user.
    pub fn new(user: impl Into<String>, secret: impl Into<String>) -> Self {
        Self { user: user.into(), secret: secret.into() }
    }

    /// Returns user and password of a URL, percent-decoded: those before its host, or its parameters `user` and `pass` or
    /// `password`.
    ///
    /// ```
    /// # use lock_core::Credentials;
    /// let of_url = Credentials::of_url("etcd://shop:p%40ss@a,b/locks");
    /// assert!(of_url == Credentials::new("shop", "p@ss"));
    /// ```
    pub fn of_url(url: &str) -> Self {
        let mut url = UrlParameters::of(url);
        let [user, pass, password] = ["user", "pass", "password"].map(|key| url.take(key));
        let (_, rest) = url.base().split_once("://").unwrap_or_default();
        let authority = rest.split('/').next().unwrap_or_default();
        let (login, _) = authority.rsplit_once('@').unwrap_or_default();
        let (before, behind) = login.split_once(':').unwrap_or((login, ""));
        let decoded = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        Self {
            user: user.unwrap_or_else(|| decoded(before)),
            secret: pass.or(password).unwrap_or_else(|| decoded(behind)),
        }
    }

    /// Returns the credentials that a URL has for Redis Sentinels: its `sentinel_user` and `sentinel_pass`.
    pub fn at_sentinels_of_url(url: &str) -> Self {
        let mut url = UrlParameters::of(url);
        let [user, secret] = ["sentinel_user", "sentinel_pass"].map(|key| url.take(key));
        Self { user: user.unwrap_or_default(), secret: secret.unwrap_or_default() }
    }
}

/// Source of the credentials of connections: a provider, or none if those of the URL never change.
#[derive(Clone, Default)]
pub struct Login {
    provider: Option<Arc<dyn CredentialProvider>>,
    is_at_sentinels: bool,
}

impl Login {
    /// Returns the login that asks a provider.
    pub fn by(provider: impl CredentialProvider) -> Self {
        Self { provider: Some(Arc::new(provider)), is_at_sentinels: false }
    }

    /// Returns the login of the same provider at Redis Sentinels.
    pub fn at_sentinels(self) -> Self {
        Self { is_at_sentinels: true, ..self }
    }

    /// Returns true if a provider is asked.
    pub fn is_provided(&self) -> bool {
        self.provider.is_some()
    }

    /// Returns the credentials of one connection; `None` for those of the URL.
    ///
    /// # Errors
    /// [`CredentialError`] if the provider fails, or does not answer within 5 s.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn credentials(&self) -> Result<Option<Credentials>, CredentialError> {
        let Some(provider) = &self.provider else { return Ok(None) };
        let asked = match self.is_at_sentinels {
            true => provider.at_sentinels(),
            false => provider.credentials(),
        };
        match timeout(LIMIT, asked).await {
            Ok(Ok(given)) => Ok(Some(given)),
            Ok(Err(error)) => Err(CredentialError(error.to_string())),
            Err(_) => Err(CredentialError(format!("no answer within {LIMIT:?}"))),
        }
    }

    /// Makes a connection by `connect`, which gets the credentials to use. If the server refuses them, which
    /// `is_refused` tells, and the provider now has others, connects once more with those.
    ///
    /// # Errors
    /// The error of `connect`, or an [`io::Error`] around a [`CredentialError`].
    ///
    /// # Cancel safety
    /// As `connect`.
    pub async fn log_in<T, E, F>(
        &self,
        connect: impl Fn(Option<Credentials>) -> F,
        is_refused: impl Fn(&E) -> bool,
    ) -> Result<T, E>
    where
        E: From<io::Error>,
        F: Future<Output = Result<T, E>>,
    {
        let given = self.credentials().await.map_err(io::Error::other)?;
        let refused = match connect(given.clone()).await {
            Err(error) if given.is_some() && is_refused(&error) => error,
            answer => return answer,
        };
        // The secret may have been replaced since.
        let now = self.credentials().await.map_err(io::Error::other)?;
        if now == given { Err(refused) } else { connect(now).await }
    }
}

/// The error of a provider that has no credentials now.
#[derive(Clone, Debug)]
pub struct CredentialError(String);

/// Start of the text of a [`CredentialError`], by which it is known among a driver's errors.
pub const NO_CREDENTIALS: &str = "the provider has no credentials";

impl CredentialError {
    /// Returns the error of a connection that was not made. A retry asks again.
    pub fn of_connection(self, backend: &'static str) -> BackendError {
        BackendError::transient(backend, Outcome::NotApplied, "no connection was made", self)
    }
}

impl fmt::Display for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NO_CREDENTIALS}: {}", self.0)
    }
}

impl std::error::Error for CredentialError {}

impl fmt::Debug for Credentials {
    /// Shows no secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("is_provided", &self.is_provided()).finish()
    }
}

#[cfg(test)]
mod tests;
