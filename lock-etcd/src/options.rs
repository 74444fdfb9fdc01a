//! Options to reach a cluster.

use std::fmt;
use std::time::Duration;

use etcd_client::ConnectOptions;
use lock_core::backend::{Login, UrlParameters};
use lock_core::{Certificates, CredentialProvider, LockError};

use crate::layout::keys::Root;

/// Default root of the keys.
const DEFAULT_ROOT: &str = "leasehold";

const DEFAULT_PORT: u16 = 2379;

const FORM: &str = "etcd://[user:password@]host[:port][,host[:port]…][/root]";

/// Longest wait for a new connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Interval of pings on a quiet connection with a stream, and longest wait for the answer. Servers accept a ping
/// every 5 s; on a connection without a stream they accept none, and close it. The client itself has no time-out,
/// since it would cut the streams.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_LIMIT: Duration = Duration::from_secs(3);

/// Options to reach an etcd cluster, and the place of locks in it. A URL alone is enough.
#[derive(Clone)]
#[must_use = "options do nothing until they connect"]
pub struct EtcdOptions {
    url: String,
    endpoints: Vec<String>,
    user: Option<(String, String)>,
    root: Option<String>,
    certificates: Option<Certificates>,
    login: Login,
    /// The application's settings of connections.
    driver: Option<ConnectOptions>,
}

/// Result of the options.
pub(crate) struct Target {
    pub(crate) endpoints: Vec<String>,
    pub(crate) root: Root,
    pub(crate) options: ConnectOptions,
    /// The certificates of connections by TLS; `None` without TLS.
    pub(crate) certificates: Option<Certificates>,
    pub(crate) login: Login,
}

impl EtcdOptions {
    /// Sets the cluster at `url`: `etcd://[user:password@]host[:port][,host[:port]…][/root]`, or `etcds://…` for TLS
    /// (feature `tls`). User, password and root are percent-decoded. Name all members, so that the locks outlive the
    /// loss of one.
    ///
    /// By TLS the URL takes `ca`, `cert` and `key`, the paths of [`Certificates`], and no other parameters. For a prefix
    /// of the names use `prefix` with `leasehold::connect`.
    pub fn new(url: impl Into<String>) -> Self {
        let (endpoints, user, root, certificates, login, driver) = Default::default();
        Self { url: url.into(), endpoints, user, root, certificates, login, driver }
    }

    /// Returns options with members and settings of the application: login, TLS and keep-alive of TCP. Members are
    /// `host:port`, `http://host:port` or `https://host:port`.
    ///
    /// Locks open connections of their own, since a connection that swallows requests must be replaced, and a driver's
    /// `Client` cannot be. They set the time-out of connecting, pings, the demand for a leader and the renewal of the
    /// login themselves. Leave `with_timeout` out: it would cut the streams.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), lock_core::LockError> {
    /// use lock_etcd::{EtcdOptions, etcd_client::ConnectOptions};
    ///
    /// let settings = ConnectOptions::new().with_user("app", "password");
    /// let lock = EtcdOptions::like(["10.0.0.1:2379"], settings).connect().await?;
    /// # Ok(()) }
    /// ```
    pub fn like<E: AsRef<str>>(
        endpoints: impl IntoIterator<Item = E>,
        settings: ConnectOptions,
    ) -> Self {
        let endpoints: Vec<E> = endpoints.into_iter().collect();
        let endpoints = endpoints.iter().map(AsRef::as_ref);
        let by_tls = endpoints.clone().any(|endpoint| endpoint.starts_with("https://"));
        let scheme = if by_tls { "etcds" } else { "etcd" };
        let hosts: Vec<&str> = endpoints
            .map(|endpoint| endpoint.split_once("://").map_or(endpoint, |(_, host)| host))
            .collect();
        let options = Self::new(format!("{scheme}://{}", hosts.join(",")));
        Self { driver: Some(settings), ..options }
    }

    /// Adds one more member, as `host:port`, to those of the URL.
    pub fn endpoint(mut self, address: impl Into<String>) -> Self {
        self.endpoints.push(address.into());
        self
    }

    /// Sets our user, in place of the user and password of the URL.
    pub fn user(self, name: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some((name.into(), password.into())), ..self }
    }

    /// Asks `provider` for user and password at each connection, in place of those of the URL.
    pub fn credentials(self, provider: impl CredentialProvider) -> Self {
        Self { login: Login::by(provider), ..self }
    }

    /// Sets the root of the key space, in place of the URL's path; default `leasehold`. All our keys are below it,
    /// and only clients with the same root exclude each other. It may hold `/`, but no part called `locks`,
    /// `withdrawn`, `fences`, `runs` or `floor`, no `%` and no control character.
    pub fn root(self, root: impl Into<String>) -> Self {
        Self { root: Some(root.into()), ..self }
    }

    /// Sets the certificates of connections by TLS, in place of the URL's `ca`, `cert` and `key`.
    pub fn certificates(self, certificates: Certificates) -> Self {
        Self { certificates: Some(certificates), ..self }
    }

    pub(crate) fn target(self) -> Result<Target, LockError> {
        let mut parameters = UrlParameters::of(&self.url);
        let certificates = match self.url.starts_with("etcds:") {
            true => Some(parameters.take_certificates()?),
            false => None,
        };
        // C49: a misspelt parameter must not become a part of the root.
        parameters.refuse_unknown()?;
        let mut servers = parameters.servers(FORM, DEFAULT_PORT)?;
        self.endpoints.iter().try_for_each(|endpoint| servers.add(endpoint))?;
        let scheme = match servers.scheme {
            "etcd" => "http",
            "etcds" if cfg!(feature = "tls") => "https",
            "etcds" => {
                return Err(unusable(
                    "etcds:// needs TLS: enable the feature `etcd-tls` of `leasehold`, or `tls` of \
                     `lock-etcd`",
                ));
            }
            _ => return Err(parameters.malformed(FORM)),
        };
        let addresses = servers.addresses.iter();
        let endpoints = addresses.map(|address| format!("{scheme}://{address}")).collect();
        let path = servers.root()?;
        let root = self.root.as_deref().or(path.as_deref()).unwrap_or(DEFAULT_ROOT);
        let root = Root::new(root).map_err(unusable)?;
        let user = match &self.user {
            None => servers.credentials()?,
            user => user.clone(),
        };
        let is_by_driver = self.driver.is_some();
        let options = connect_options(self.driver.unwrap_or_default(), user);
        // The driver's settings have certificates of their own.
        let of_url = certificates.filter(|_| !is_by_driver || self.certificates.is_some());
        let certificates = of_url.map(|of_url| self.certificates.unwrap_or(of_url));
        Ok(Target { endpoints, root, options, certificates, login: self.login })
    }
}

fn connect_options(options: ConnectOptions, user: Option<(String, String)>) -> ConnectOptions {
    let options = options
        .with_connect_timeout(CONNECT_LIMIT)
        .with_keep_alive(PING_EVERY, PING_LIMIT)
        .with_keep_alive_while_idle(false)
        .with_require_leader(true)
        .with_auto_token_refresh(true);
    match user {
        Some((name, password)) => options.with_user(name, password),
        None => options,
    }
}

/// Returns the error of an unusable URL. It does not repeat the URL, which may hold a password.
fn unusable(reason: &str) -> LockError {
    LockError::Config { message: format!("the etcd URL cannot be used: {reason}") }
}

impl fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdOptions").field("root", &self.root).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(url: &str) -> Vec<String> {
        EtcdOptions::new(url).target().expect(url).endpoints
    }

    #[test]
    fn a_url_names_members_user_and_root() {
        assert_eq!(endpoints("etcd://a"), ["http://a:2379"]);
        assert_eq!(
            endpoints("etcd://a:1,b,[::1]:3,[::1]/p"),
            ["http://a:1", "http://b:2379", "http://[::1]:3", "http://[::1]:2379"]
        );
        assert_eq!(endpoints("etcd://u:p%40,@a:1"), ["http://a:1"]);
        let root = |url| EtcdOptions::new(url).target().expect(url).root.as_str().to_owned();
        assert_eq!(root("etcd://a/"), "leasehold");
        assert_eq!(root("etcd://a/x/y/"), "x/y");
        let more = EtcdOptions::new("etcd://a").endpoint("b:2").root("q").target().expect("good");
        assert_eq!((more.endpoints.len(), more.root.as_str()), (2, "q"));
    }

    #[test]
    fn c32_a_bad_url_is_refused_without_its_password() {
        for bad in [
            "http://a", "etcd://a/locks", "etcd://u:secret@a,", "etcd://u:p@a?root=secret",
            "etcd://u:p@a/?prefix=secret", "etcd://u:p@a/r#secret", "etcd://u:p?secret@a",
        ] {
            let error = EtcdOptions::new(bad).target().err().expect(bad).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        let shown = format!("{:?}", EtcdOptions::new("etcd://u:secret@a").user("u", "secret"));
        assert!(!shown.contains("secret"), "{shown}");
    }

    /// A URL is taken, or refused by a typed error that shows no part of its password.
    #[test]
    fn fuzz_urls() {
        lock_fuzz::check(|(choice, parts)| {
            let url = lock_fuzz::url(&["etcd", "etcds"], *choice, parts);
            let options = EtcdOptions::new(&url);
            let refused = options.clone().target().err().map(|error| format!("{error} {error:?}"));
            let shown = format!("{options:?} {}", refused.unwrap_or_default());
            lock_fuzz::assert_secret_is_kept(&shown, &url);
        });
    }
}
