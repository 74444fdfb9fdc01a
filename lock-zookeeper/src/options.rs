//! Options to reach an ensemble.

use std::fmt;

use lock_core::backend::{CredentialError, Login, UrlParameters};
use lock_core::{Certificates, CredentialProvider, LockError};
use zookeeper_client::{Client, Connector};

use crate::names::Root;
#[cfg(feature = "tls")]
use crate::tls;

/// Root of a URL without one.
const DEFAULT_ROOT: &str = "leasehold";

const DEFAULT_PORT: u16 = 2181;

const FORM: &str = "zookeeper://[user:password@]host[:port][,host[:port]…][/root]";

/// Options to reach a ZooKeeper ensemble, and the place of locks in it. A URL alone is enough.
#[derive(Clone)]
#[must_use = "options do nothing until they connect"]
pub struct ZooKeeperOptions {
    url: String,
    certificates: Option<Certificates>,
    login: Login,
}

/// The options, read and checked.
#[derive(Clone)]
pub(crate) struct Target {
    /// The members in the form of the client library: `tcp://host:port,tcp://host:port`.
    pub(crate) servers: String,
    /// The members for errors: `host:port,host:port`.
    pub(crate) hosts: String,
    /// The certificates of connections by TLS; `None` without TLS.
    pub(crate) certificates: Option<Certificates>,
    /// User and password of the URL, for the scheme `digest`.
    pub(crate) user: Option<(String, String)>,
    pub(crate) login: Login,
    pub(crate) root: Root,
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
    /// By TLS the URL takes `ca`, `cert` and `key`, the paths of [`Certificates`], and no other parameters.
    /// `leasehold::connect` takes `prefix`, which is a part of names, not of nodes.
    pub fn new(url: impl Into<String>) -> Self {
        let (certificates, login) = Default::default();
        Self { url: url.into(), certificates, login }
    }

    /// Sets the certificates of connections by TLS, in place of the URL's `ca`, `cert` and `key`.
    pub fn certificates(self, certificates: Certificates) -> Self {
        Self { certificates: Some(certificates), ..self }
    }

    /// Asks `provider` for user and password at each connection, in place of those of the URL.
    ///
    /// ZooKeeper knows a user of the scheme `digest` by name and password together, and the nodes of locks belong to that
    /// user: with another password a client is another user, who has no rights on them.
    pub fn credentials(self, provider: impl CredentialProvider) -> Self {
        Self { login: Login::by(provider), ..self }
    }

    pub(crate) fn target(&self) -> Result<Target, LockError> {
        let mut parameters = UrlParameters::of(&self.url);
        let certificates = match self.url.starts_with("zookeepers:") {
            true => Some(parameters.take_certificates()?),
            false => None,
        };
        // C49: a misspelt parameter must not become a part of the root.
        parameters.refuse_unknown()?;
        let members = parameters.servers(FORM, DEFAULT_PORT)?;
        let protocol = match members.scheme {
            "zookeeper" => "tcp",
            "zookeepers" if cfg!(feature = "tls") => "tcp+tls",
            "zookeepers" => {
                return Err(unusable(
                    "zookeepers:// needs TLS: enable the feature `zookeeper-tls` of `leasehold`, or `tls` of \
                     `lock-zookeeper`",
                ));
            }
            _ => return Err(parameters.malformed(FORM)),
        };
        let user = members.credentials()?;
        let root = members.root()?;
        let root = Root::new(root.as_deref().unwrap_or(DEFAULT_ROOT)).map_err(unusable)?;
        #[cfg(feature = "tls")]
        if certificates.is_some()
            && !members.addresses.iter().all(|member| tls::is_nameable(member))
        {
            // The client library panics at a host that no certificate can name.
            return Err(unusable("no certificate can name one of its hosts"));
        }
        let certificates = certificates.map(|of_url| self.certificates.clone().unwrap_or(of_url));
        let servers = members.addresses.iter().map(|address| format!("{protocol}://{address}"));
        let (servers, hosts) = (servers.collect::<Vec<_>>().join(","), members.addresses.join(","));
        Ok(Target { servers, hosts, certificates, user, login: self.login.clone(), root })
    }
}

impl Target {
    /// Returns true if connections log in.
    pub(crate) fn has_a_user(&self) -> bool {
        self.user.is_some() || self.login.is_provided()
    }

    /// Returns the settings of a connection that logs in. The server accepts each user of the scheme `digest`, so no
    /// login is refused.
    pub(crate) async fn connector(&self) -> Result<Connector, CredentialError> {
        let (mut user, mut secret) = self.user.clone().unwrap_or_default();
        if let Some(given) = self.login.credentials().await? {
            user = Some(given.user).filter(|given| !given.is_empty()).unwrap_or(user);
            secret = Some(given.secret).filter(|given| !given.is_empty()).unwrap_or(secret);
        }
        let connector = Client::connector();
        Ok(match self.has_a_user() {
            true => connector.with_auth("digest", format!("{user}:{secret}").as_bytes()),
            false => connector,
        })
    }
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
        assert_eq!(all.servers, "tcp://a:1,tcp://b:2181,tcp://[::1]:3");
        assert_eq!((all.user, all.root.as_str()), (Some(("u".into(), "p@".into())), "/x/y"));
        let least = target("zookeeper://a");
        assert_eq!((least.user, least.root.as_str()), (None, "/leasehold"));
    }

    #[test]
    fn c32_a_bad_url_is_refused_without_its_password() {
        for bad in [
            "http://a",
            "zookeeper://u:secret@a,",
            "zookeeper://a/../secret",
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
