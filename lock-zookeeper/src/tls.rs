//! TLS, by rustls.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls_native_certs::load_native_certs;
use zookeeper_client::TlsOptions;

/// Trusts the authority of this certificate, or those that the platform knows.
pub(crate) fn trust(root_certificate: Option<&[u8]>) -> Result<TlsOptions, &'static str> {
    choose_cryptography();
    let pem =
        root_certificate.map_or_else(platform, |pem| String::from_utf8_lossy(pem).into_owned());
    TlsOptions::new().with_pem_ca(&pem).map_err(|_| "no certificate of an authority is known")
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

    #[test]
    fn text_without_a_certificate_is_refused() {
        assert!(trust(Some(b"no certificate")).is_err());
    }
}
