//! Options to reach an ensemble.

use std::fmt;

use lock_core::LockError;
use lock_core::backend::UrlParameters;
use percent_encoding::percent_decode_str;
use zookeeper_client::{Client, Connector};

use crate::backend::ZooKeeperBackend;
use crate::names::Root;
#[cfg(feature = "tls")]
use crate::tls;

/// Root of a URL without one.
const DEFAULT_ROOT: &str = "leasehold";

/// Options to reach a ZooKeeper ensemble, and the place of locks in it. A URL alone is enough.
#[derive(Clone)]
#[must_use = "options do nothing until they connect"]
pub struct ZooKeeperOptions {
    url: String,
    #[cfg(feature = "tls")]
    root_certificate: Option<Vec<u8>>,
}

/// The options, read and checked.
#[derive(Clone)]
pub(crate) struct Target {
    /// The members in the form of the client library: `tcp://host:port,tcp://host:port`.
    pub(crate) servers: String,
    /// Connects with the login and the trust of the options.
    pub(crate) connector: Connector,
    pub(crate) is_tls: bool,
    /// User and password, for the scheme `digest`.
    pub(crate) login: Option<String>,
    pub(crate) root: Root,
}

impl Target {
    /// Returns the members for errors: `host:port,host:port`.
    pub(crate) fn hosts(&self) -> String {
        let hosts = self.servers.split(',').map(|at| at.rsplit('/').next().unwrap_or_default());
        hosts.collect::<Vec<_>>().join(",")
    }
}

impl ZooKeeperOptions {
    /// Creates options for the ensemble at `url`:
    /// `zookeeper://[user:password@]host[:port][,host[:port]…][/root]`, or `zookeepers://…` for TLS (feature `tls`).
    /// User, password and root are percent-decoded. Name all members, so that the locks survive the loss of one. The
    /// default port is 2181, also for TLS.
    ///
    /// All nodes are below the root, by default `/leasehold`: only clients with the same root exclude each other.
    /// With a user, only this user may use the nodes, by the scheme `digest`; without one, everybody may.
    ///
    /// The URL takes no parameters. `leasehold::connect` takes `prefix`, which is a part of names, not of nodes.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            #[cfg(feature = "tls")]
            root_certificate: None,
        }
    }

    /// Sets the certificate, in PEM, of the authority that signed the servers' certificates. It is needed if the
    /// platform does not know that authority.
    #[cfg(feature = "tls")]
    pub fn root_certificate(self, pem: impl Into<Vec<u8>>) -> Self {
        Self { root_certificate: Some(pem.into()), ..self }
    }

    /// Connects, and waits for the answer of a member.
    ///
    /// # Errors
    /// - [`LockError::Config`] if the URL cannot be used. The error does not repeat the URL, which may hold a
    ///   password.
    /// - [`LockError::Backend`] if no member can be reached, or the client is refused.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn connect(self) -> Result<ZooKeeperBackend, LockError> {
        ZooKeeperBackend::to(self.target()?).await
    }

    fn target(&self) -> Result<Target, LockError> {
        let parameters = UrlParameters::of(&self.url);
        // C49: there are none, and a misspelt one must not become a part of the root.
        parameters.refuse_unknown()?;
        let (scheme, rest) = parameters.base().split_once("://").ok_or_else(malformed)?;
        let is_tls = match scheme {
            "zookeeper" => false,
            "zookeepers" if cfg!(feature = "tls") => true,
            "zookeepers" => {
                return Err(unusable(
                    "zookeepers:// needs TLS: enable the feature `zookeeper-tls` of `leasehold`, or `tls` of \
                     `lock-zookeeper`",
                ));
            }
            _ => return Err(malformed()),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(credentials(login)?), hosts),
            None => (None, authority),
        };
        if !hosts.split(',').all(is_server) {
            return Err(malformed());
        }
        let path = decoded(path.trim_matches('/'))?;
        let path = if path.is_empty() { DEFAULT_ROOT.to_owned() } else { path };
        let root = Root::new(&path).map_err(unusable)?;
        let mut connector = Client::connector();
        if let Some(login) = &login {
            connector = connector.with_auth("digest", login.as_bytes());
        }
        if is_tls {
            connector = self.with_tls(connector, hosts)?;
        }
        let protocol = if is_tls { "tcp+tls" } else { "tcp" };
        let servers: Vec<_> = hosts.split(',').map(|host| format!("{protocol}://{host}")).collect();
        Ok(Target { servers: servers.join(","), connector, is_tls, login, root })
    }

    #[cfg(feature = "tls")]
    fn with_tls(&self, connector: Connector, hosts: &str) -> Result<Connector, LockError> {
        // The client library panics at a host that no certificate can name.
        if !hosts.split(',').all(tls::is_nameable) {
            return Err(malformed());
        }
        Ok(connector.with_tls(tls::trust(self.root_certificate.as_deref()).map_err(unusable)?))
    }

    #[cfg(not(feature = "tls"))]
    fn with_tls(&self, connector: Connector, _hosts: &str) -> Result<Connector, LockError> {
        Ok(connector)
    }
}

fn is_server(server: &str) -> bool {
    let is_good = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    let (name, port) = match server.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (server, "2181"),
    };
    let port = port.parse::<u16>().is_ok_and(|port| port > 0);
    port && !name.is_empty() && name.chars().all(is_good)
}

fn credentials(login: &str) -> Result<String, LockError> {
    let (user, password) = login.split_once(':').ok_or_else(malformed)?;
    Ok(format!("{}:{}", decoded(user)?, decoded(password)?))
}

fn decoded(text: &str) -> Result<String, LockError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(|text| text.into_owned()).map_err(|_| malformed())
}

fn malformed() -> LockError {
    unusable("it is not of the form zookeeper://[user:password@]host[:port][,host[:port]…][/root]")
}

/// Error of an unusable URL, without the URL, which may hold a password.
fn unusable(reason: &str) -> LockError {
    LockError::Config { message: format!("the ZooKeeper URL cannot be used: {reason}") }
}

impl fmt::Debug for ZooKeeperOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperOptions").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_members_user_and_root() {
        let target = |url: &str| ZooKeeperOptions::new(url).target().expect(url);
        let all = target("zookeeper://u:p%40@a:1,b,[::1]:3/x/y/");
        assert_eq!(all.servers, "tcp://a:1,tcp://b,tcp://[::1]:3");
        assert_eq!((all.login.as_deref(), all.root.as_str()), (Some("u:p@"), "/x/y"));
        let least = target("zookeeper://a");
        assert_eq!((least.login, least.root.as_str()), (None, "/leasehold"));
    }

    #[test]
    fn c32_a_bad_url_is_refused_without_its_password() {
        for bad in [
            "",
            "zookeeper:",
            "http://a",
            "zookeeper://",
            "zookeeper://a:x",
            "zookeeper://secret@a",
            "zookeeper://u:secret@",
            "zookeeper://u:secret@a:99999",
            "zookeeper://u:secret@a b",
            "zookeeper://a/%ff",
            "zookeeper://a/../secret",
            "zookeeper://u:secret@a,",
            "zookeeper://u:p@a?root=secret",
            "zookeeper://u:p@a/r#secret",
        ] {
            let error = ZooKeeperOptions::new(bad).target().err().expect(bad).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        let shown = format!("{:?}", ZooKeeperOptions::new("zookeeper://u:secret@a"));
        assert!(!shown.contains("secret"), "{shown}");
    }

    /// Each URL is accepted, or refused by a typed error that shows no part of its password.
    #[test]
    fn fuzz_urls() {
        lock_fuzz::check(|(choice, parts)| {
            let url = lock_fuzz::url(&["zookeeper", "zookeepers"], *choice, parts);
            let options = ZooKeeperOptions::new(&url);
            let refused = options.clone().target().err().map(|error| format!("{error} {error:?}"));
            let shown = format!("{options:?} {}", refused.unwrap_or_default());
            lock_fuzz::assert_secret_is_kept(&shown, &url);
        });
    }
}
