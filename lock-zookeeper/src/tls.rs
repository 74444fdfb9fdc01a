//! TLS, by rustls.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lock_core::{BackendError, Certificates, Outcome};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls_native_certs::load_native_certs;
use zookeeper_client::{Error, TlsOptions};

use crate::error::BACKEND;

/// Returns the options of a connection with the certificates as they are now.
pub(crate) async fn options(certificates: &Certificates) -> Result<TlsOptions, BackendError> {
    choose_cryptography();
    let read = certificates.read().await.map_err(|error| error.of_connection(BACKEND))?;
    let text = |pem: &[u8]| String::from_utf8_lossy(pem).into_owned();
    let authority = read.authority.as_deref().map_or_else(platform, text);
    let options = TlsOptions::new().with_pem_ca(&authority);
    let options =
        options.map_err(|error| unusable("no certificate of an authority is known", &error))?;
    match read.identity {
        Some((certificate, key)) => options
            .with_pem_identity(&text(&certificate), &text(&key))
            .map_err(|error| unusable("the client's certificate or key cannot be used", &error)),
        None => Ok(options),
    }
}

/// The error of certificates that the client library does not accept. A file may be replaced.
fn unusable(context: &'static str, error: &Error) -> BackendError {
    BackendError::transient(BACKEND, Outcome::NotApplied, context, error.to_string())
}

/// The certificates of the authorities that the platform knows, in PEM, which is all that the client library reads.
fn platform() -> String {
    let pem = |der: &[u8]| {
        format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
            STANDARD.encode(der)
        )
    };
    load_native_certs().certs.iter().map(|certificate| pem(certificate)).collect()
}

/// Chooses the cryptography for rustls, which the client library does not. A choice of the application stays.
fn choose_cryptography() {
    if CryptoProvider::get_default().is_none() {
        // An error means that another thread has just chosen.
        let _ = ring::default_provider().install_default();
    }
}

/// Returns true if a certificate can name the host of `server`, as the client library reads it.
pub(crate) fn is_nameable(server: &str) -> bool {
    let host = match server.strip_prefix('[') {
        Some(rest) => rest.rsplit_once(']').map(|(host, _)| host),
        None => Some(server.rsplit_once(':').map_or(server, |(host, _)| host)),
    };
    host.is_some_and(|host| ServerName::try_from(host).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_one_that_a_certificate_can_name() {
        for good in ["a", "a.b:1", "[::1]", "[::1]:3", "127.0.0.1:1"] {
            assert!(is_nameable(good), "{good}");
        }
        for bad in ["a..b", "a:b:1", "-a", "[::1", &"a".repeat(64)] {
            assert!(!is_nameable(bad), "{bad}");
        }
    }

    /// No lasting refusal: a file may be replaced.
    #[tokio::test]
    async fn text_that_is_no_certificate_is_refused_for_now() {
        let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let refused = options(&Certificates::new().authority(pem.as_bytes())).await;
        assert!(refused.map(drop).expect_err("no certificate").is_transient());
    }
}
