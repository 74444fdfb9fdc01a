//! Options to reach a server.

use std::fmt;

use lock_core::backend::{ClockLimit, Login, UrlParameters};
use lock_core::{Certificates, CredentialProvider, LockError};
#[cfg(feature = "sentinel")]
use redis::RedisConnectionInfo;
use redis::{Client, ConnectionInfo};

use crate::wire::connection::with_socket_settings;
use crate::wire::opening::Opener;

/// Options to reach a Redis server, and the place of locks on it. A URL alone is enough.
#[derive(Clone)]
#[must_use = "options do nothing until they connect"]
pub struct RedisOptions {
    target: Target,
    pub(crate) clock: ClockLimit,
    certificates: Option<Certificates>,
    login: Login,
}

/// The servers that options name.
#[derive(Clone)]
enum Target {
    Url(String),
    /// Servers by the driver's settings. They are of the kind that the URLs of this scheme name.
    Driver {
        scheme: &'static str,
        servers: Vec<ConnectionInfo>,
        #[cfg_attr(not(feature = "sentinel"), allow(dead_code, reason = "for sentinels alone"))]
        primary: Option<Primary>,
    },
}

/// The sentinels' name of a primary, and the settings of its servers.
type Primary = (String, redis::RedisConnectionInfo);

impl RedisOptions {
    /// The server at `url`:
    ///
    /// - `redis://[user:password@]host[:port][/database]`
    /// - `rediss://…` for TLS (feature `rustls` or `native-tls`); with `native-tls` alone, `#insecure` at its end
    ///   trusts any certificate
    /// - `redis+unix:///path[?db=n&user=u&pass=p]` for a unix socket
    /// - `redis-cluster://[user:password@]host[:port][,host[:port]…]` for a cluster, of which any servers are enough
    ///   (feature `cluster`); `rediss-cluster://…` for TLS
    /// - `redis-sentinel://[user:password@]host[:port][,host[:port]…]/name[?db=n]` for the primary that sentinels
    ///   know by this name (feature `sentinel`); `rediss-sentinel://…` for TLS. User and password are those of the
    ///   primary; those of the sentinels are `sentinel_user` and `sentinel_pass`
    /// - `redis-quorum://[user:password@]host[:port],host[:port],host[:port][/database]` for a majority of several
    ///   servers, by `connect_quorum` alone (feature `quorum`); `rediss-quorum://…` for TLS
    ///
    /// Each takes `protocol=resp2` or `protocol=resp3`. By TLS each takes `ca`, `cert` and `key`, the paths of
    /// [`Certificates`]. Any other parameter is refused. The name of a lock is its
    /// key. For a prefix use `prefix` with `leasehold::connect`, or wrap the backend in
    /// [`Prefixed`](lock_core::backend::Prefixed).
    pub fn new(url: impl Into<String>) -> Self {
        let (certificates, login) = Default::default();
        Self { target: Target::Url(url.into()), clock: ClockLimit::ADay, certificates, login }
    }

    /// Returns options with the server and the settings of one of the application's clients: address, TLS, login,
    /// database and protocol. Locks open connections of their own, with settings of TCP of their own.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = redis::Client::open("redis://10.0.0.1/")?;
    /// let lock = lock_redis::RedisOptions::like_client(&client).connect().await?;
    /// # Ok(()) }
    /// ```
    pub fn like_client(client: &Client) -> Self {
        Self::like("redis", vec![client.get_connection_info().clone()])
    }

    /// Returns options for a cluster, of which any `servers` are enough. The others are reached with the settings of
    /// the first. A `redis::cluster::ClusterClient` does not show its own.
    #[cfg(feature = "cluster")]
    pub fn like_cluster(servers: Vec<ConnectionInfo>) -> Self {
        Self::like("redis-cluster", servers)
    }

    /// Returns options for the primary that `sentinels` know by this `name`. All sentinels are reached with the settings
    /// of the first, and the primary with the same TLS and the settings of `servers`: login, database and protocol. A
    /// `redis::sentinel::SentinelClient` does not show its own.
    #[cfg(feature = "sentinel")]
    pub fn like_sentinels(
        sentinels: Vec<ConnectionInfo>,
        name: impl Into<String>,
        servers: RedisConnectionInfo,
    ) -> Self {
        let primary = Some((name.into(), servers));
        let target = Target::Driver { scheme: "redis-sentinel", servers: sentinels, primary };
        Self { target, ..Self::new("") }
    }

    fn like(scheme: &'static str, servers: Vec<ConnectionInfo>) -> Self {
        let target = Target::Driver { scheme, servers, primary: None };
        Self { target, ..Self::new("") }
    }

    /// Acquires locks even if the server's clock is more than a day ahead of ours. Such a clock makes tokens that are
    /// greater than those after the clock is set right.
    pub fn trust_any_clock(self) -> Self {
        Self { clock: ClockLimit::Any, ..self }
    }

    /// Sets the certificates of connections by TLS, in place of the URL's `ca`, `cert` and `key`.
    pub fn certificates(self, certificates: Certificates) -> Self {
        Self { certificates: Some(certificates), ..self }
    }

    /// Asks `provider` for user and password at each connection, in place of those of the URL.
    pub fn credentials(self, provider: impl CredentialProvider) -> Self {
        Self { login: Login::by(provider), ..self }
    }

    /// Returns the part before the first colon of the URL.
    pub(crate) fn scheme(&self) -> &str {
        match &self.target {
            Target::Url(url) => url.split(':').next().unwrap_or_default(),
            Target::Driver { scheme, .. } => scheme,
        }
    }

    /// Returns the servers of the driver's settings; `None` for a URL.
    pub(crate) fn servers_of_driver(&self) -> Option<&[ConnectionInfo]> {
        match &self.target {
            Target::Url(_) => None,
            Target::Driver { servers, .. } => Some(servers),
        }
    }

    /// Returns the name of the primary, and the settings of its servers; `None` for a URL.
    #[cfg(feature = "sentinel")]
    pub(crate) fn primary_of_driver(&self) -> Option<(String, RedisConnectionInfo)> {
        match &self.target {
            Target::Url(_) => None,
            Target::Driver { primary, .. } => primary.clone(),
        }
    }

    /// Returns the URL's parameters.
    pub(crate) fn parameters(&self) -> UrlParameters {
        match &self.target {
            Target::Url(url) => UrlParameters::of(url),
            Target::Driver { .. } => UrlParameters::of(""),
        }
    }

    /// Returns the same options for another URL.
    #[cfg(any(feature = "cluster", feature = "quorum", feature = "sentinel"))]
    pub(crate) fn at(&self, url: String) -> Self {
        Self { target: Target::Url(url), ..self.clone() }
    }

    /// Returns the certificates of the options, or those that the URL names.
    pub(crate) fn certificates_of_url(&self) -> Result<Certificates, LockError> {
        self.read_url().map(|(certificates, _)| certificates)
    }

    /// Returns the opener of connections.
    pub(crate) fn opener(&self) -> Result<Opener, LockError> {
        let (certificates, parameters) = self.read_url()?;
        let url = parameters.url();
        refuse_unknown_parameters(parameters)?;
        if self.is_by_tls() && cfg!(not(any(feature = "rustls", feature = "native-tls"))) {
            return Err(unusable(
                "rediss:// needs a TLS feature: enable `redis-rustls` or `redis-native-tls` of leasehold, or \
                 `rustls` or `native-tls` of lock-redis",
            ));
        }
        #[cfg(feature = "rustls")]
        choose_cryptography();
        // C32: the error leaves out the driver's own text, which may repeat parts of the URL, such as a password.
        let info = match self.servers_of_driver() {
            None => with_socket_settings(&*url),
            Some([first, ..]) => with_socket_settings(first.clone()),
            Some([]) => return Err(unusable("it names no server")),
        };
        let info = info.map_err(|_| UrlParameters::of(&url).malformed(FORM))?;
        let client = Client::open(info)
            .map_err(|_| unusable("the driver does not accept it; check address and TLS"))?;
        Ok(Opener::new(client, certificates, self.login.clone()))
    }

    /// Returns the certificates, and the URL without them.
    fn read_url(&self) -> Result<(Certificates, UrlParameters), LockError> {
        let mut parameters = self.parameters();
        let of_url = match self.is_by_tls() {
            true => parameters.take_certificates()?,
            false => Certificates::new(),
        };
        Ok((self.certificates.clone().unwrap_or(of_url), parameters))
    }

    fn is_by_tls(&self) -> bool {
        ["rediss", "valkeys"].iter().any(|scheme| self.scheme().starts_with(scheme))
    }
}

/// C49: refuses parameters that the driver would ignore. It reads user, password and database only from the
/// parameters of a unix socket's URL, and a fragment only with TLS.
fn refuse_unknown_parameters(mut parameters: UrlParameters) -> Result<(), LockError> {
    let scheme = parameters.base().split(':').next().unwrap_or_default();
    let is_socket = ["redis+unix", "valkey+unix", "unix"].contains(&scheme);
    if ["rediss", "valkeys"].contains(&scheme) {
        // The driver refuses any other fragment than `insecure`.
        let _ = parameters.take_fragment();
    }
    let of_socket = |key: &str| is_socket && ["db", "user", "pass"].contains(&key);
    parameters.refuse_unless(|key| key == "protocol" || of_socket(key))
}

/// Chooses the cryptography for rustls, which the driver does not. A choice of the application stays.
#[cfg(feature = "rustls")]
fn choose_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread has just chosen.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

const FORM: &str = "redis://[user:password@]host[:port][/database]";

pub(crate) fn unusable(reason: &str) -> LockError {
    LockError::Config { message: format!("the Redis URL cannot be used: {reason}") }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A URL is taken, or refused by a typed error that shows no part of its password.
    #[test]
    fn fuzz_urls() {
        const SCHEMES: [&str; 9] = [
            "redis", "rediss", "valkey", "redis-cluster", "rediss-cluster", "redis-sentinel",
            "rediss-sentinel", "redis-quorum", "redis+unix",
        ];
        lock_fuzz::check(|(choice, parts)| {
            let url = lock_fuzz::url(&SCHEMES, *choice, parts);
            let options = RedisOptions::new(&url);
            let refused = options.check().err().map(|error| format!("{error} {error:?}"));
            let shown = format!("{options:?} {}", refused.unwrap_or_default());
            lock_fuzz::assert_secret_is_kept(&shown, &url);
        });
    }

    impl RedisOptions {
        /// Reads the URL, and connects nowhere.
        fn check(&self) -> Result<(), LockError> {
            match self.scheme() {
                #[cfg(feature = "cluster")]
                "redis-cluster" | "rediss-cluster" => crate::topology::Cluster::new(self).map(drop),
                #[cfg(feature = "sentinel")]
                "redis-sentinel" | "rediss-sentinel" => {
                    crate::topology::Sentinels::new(self).map(drop)
                }
                #[cfg(feature = "quorum")]
                "redis-quorum" => crate::topology::hosts::Hosts::of(self, 6379).map(drop),
                _ => self.opener().map(drop),
            }
        }
    }
}
