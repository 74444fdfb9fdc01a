//! Certificates of connections by TLS, read again for each connection.

mod validity;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tokio::task::spawn_blocking;

use super::url_parameters::UrlParameters;
use crate::model::{BackendError, LockError, Outcome};

/// The certificates of connections by TLS: of the authority that signed the server's certificate, and of the client
/// itself.
///
/// The client trusts the authorities that the platform knows, unless an [`authority`](Self::authority) is given. A
/// server that demands a certificate of its clients needs an [`identity`](Self::identity).
///
/// Each part is PEM, as bytes or as a file. Files are read again for each connection: a new certificate takes effect
/// without a restart, at the next connection. While a file is missing or incomplete, no connection is made, and the
/// present ones stay.
///
/// ```
/// use std::path::Path;
///
/// use lock_core::Certificates;
///
/// let certificates = Certificates::new()
///     .authority("-----BEGIN CERTIFICATE-----\n…".as_bytes())
///     .identity(Path::new("/tls/tls.crt"), Path::new("/tls/tls.key"));
/// assert_ne!(certificates, Certificates::new());
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
#[must_use = "certificates do nothing until options have them"]
pub struct Certificates {
    authority: Option<Pem>,
    identity: Option<(Pem, Pem)>,
}

/// A certificate or a key in PEM.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// The text itself.
    Text(Vec<u8>),
    /// The file of the text, which is read again for each connection.
    File(PathBuf),
}

impl Certificates {
    /// The platform's authorities, and no certificate of the client.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts these authorities alone, one or several, in place of the platform's.
    pub fn authority(self, certificates: impl Into<Pem>) -> Self {
        Self { authority: Some(certificates.into()), ..self }
    }

    /// Sets the client's own certificate, followed by those between it and the authority, and its private key. The
    /// key must not be encrypted, and `native-tls` needs it in the form PKCS #8 (`BEGIN PRIVATE KEY`).
    pub fn identity(self, certificate: impl Into<Pem>, key: impl Into<Pem>) -> Self {
        Self { identity: Some((certificate.into(), key.into())), ..self }
    }

    /// Reads the parts as they are now.
    ///
    /// # Errors
    /// [`CertificateError`] if a file cannot be read, or a part is not what it should be.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn read(&self) -> Result<ReadCertificates, CertificateError> {
        let (authority, identity) = (self.authority.as_ref(), self.identity.as_ref());
        let certificate = identity.map(|(certificate, _)| certificate);
        let authority = read(authority, "ca", CERTIFICATE).await?;
        let certificate = read(certificate, "cert", CERTIFICATE).await?;
        let key = read(identity.map(|(_, key)| key), "key", PRIVATE_KEY).await?;
        Ok(ReadCertificates { authority, identity: certificate.zip(key) })
    }

    /// Explains why a server may have refused a connection by TLS: the client has no certificate, or has one that
    /// has expired, or one that an authority signed that the server may not trust.
    ///
    /// Servers do not say this themselves: most send the same alert for each of these, and others end the connection.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn doubt(&self) -> String {
        let Some((pem, _)) = &self.identity else {
            return "if the server demands a certificate of its clients, this client has none: give one by the \
                    parameters cert and key"
                .to_owned();
        };
        let text = match read(Some(pem), "cert", CERTIFICATE).await {
            Ok(text) => text.unwrap_or_default(),
            Err(error) => return error.to_string(),
        };
        let shown = pem.shown("cert");
        match validity::end(&text) {
            Some(end) if *end < *validity::at(SystemTime::now()) => {
                format!("the certificate in {shown} has expired, at {end} (UTC)")
            }
            _ => format!(
                "the server may not trust the authority that signed the certificate in {shown}, or that certificate \
                 itself"
            ),
        }
    }
}

impl UrlParameters {
    /// Takes out `ca`, `cert` and `key`, the paths of [`Certificates`].
    ///
    /// # Errors
    /// [`LockError::Config`] if a path is empty, or one of `cert` and `key` is missing.
    pub fn take_certificates(&mut self) -> Result<Certificates, LockError> {
        let [authority, certificate, key] = ["ca", "cert", "key"].map(|key| self.take(key));
        let is_empty = |path: &Option<String>| path.as_ref().is_some_and(String::is_empty);
        let is_without_path = [&authority, &certificate, &key].into_iter().any(is_empty);
        if is_without_path || certificate.is_some() != key.is_some() {
            let message = "the URL cannot be used: `ca`, `cert` and `key` are paths of PEM files, and a `cert` needs \
                           its `key`"
                .to_owned();
            return Err(LockError::Config { message });
        }
        let file = |path: String| Pem::File(path.into());
        let identity = certificate.map(file).zip(key.map(file));
        Ok(Certificates { authority: authority.map(file), identity })
    }
}

/// [`Certificates`] as they were read: PEM.
pub struct ReadCertificates {
    /// The authorities to trust; `None` for those of the platform.
    pub authority: Option<Vec<u8>>,
    /// The client's own certificate, and its private key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// The reason why a certificate or a key cannot be used, with its file.
#[derive(Clone, Debug)]
pub struct CertificateError(String);

impl CertificateError {
    /// Returns the error of a connection that was not made. A retry may help, since a file may be replaced.
    pub fn of_connection(self, backend: &'static str) -> BackendError {
        BackendError::transient(backend, Outcome::NotApplied, "no connection was made", self)
    }
}

const CERTIFICATE: &str = "CERTIFICATE-----";
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// Reads the part that the parameter `name` has, and checks that it contains `kind`.
async fn read(
    pem: Option<&Pem>,
    name: &str,
    kind: &str,
) -> Result<Option<Vec<u8>>, CertificateError> {
    let Some(pem) = pem else { return Ok(None) };
    let error = |what: String| CertificateError(format!("{} {what}", pem.shown(name)));
    let text = match pem.clone() {
        Pem::Text(text) => Ok(text),
        Pem::File(path) => spawn_blocking(|| std::fs::read(path)).await.unwrap_or_else(|stopped| {
            // The runtime is ending.
            Err(std::io::Error::other(stopped))
        }),
    };
    let text = text.map_err(|reason| error(format!("cannot be read: {reason}")))?;
    let shown = String::from_utf8_lossy(&text);
    let is_whole = shown.contains("-----BEGIN ") && shown.matches(kind).count() > 1;
    if kind == PRIVATE_KEY && shown.contains("ENCRYPTED") {
        return Err(error("is encrypted: this client knows no password for it".to_owned()));
    } else if !is_whole {
        let kind = kind.trim_end_matches('-').to_lowercase();
        return Err(error(format!("has no whole {kind} in PEM")));
    }
    Ok(Some(text))
}

impl Pem {
    fn shown(&self, name: &str) -> String {
        match self {
            Self::Text(_) => format!("the PEM text of `{name}`"),
            Self::File(path) => format!("the PEM file {} (`{name}`)", path.display()),
        }
    }
}

impl From<Vec<u8>> for Pem {
    fn from(text: Vec<u8>) -> Self {
        Self::Text(text)
    }
}

impl From<&[u8]> for Pem {
    fn from(text: &[u8]) -> Self {
        Self::Text(text.to_vec())
    }
}

impl From<PathBuf> for Pem {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl From<&Path> for Pem {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

impl From<CertificateError> for LockError {
    fn from(error: CertificateError) -> Self {
        Self::Config { message: format!("the certificates cannot be used: {error}") }
    }
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CertificateError {}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("authority", &self.authority)
            .field("identity", &self.identity)
            .finish()
    }
}

impl fmt::Debug for Pem {
    /// Shows no text, which may be a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(…)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl fmt::Debug for ReadCertificates {
    /// Shows no text, which may be a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadCertificates").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
