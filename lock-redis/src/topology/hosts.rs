//! URLs with several hosts: `redis-cluster://user:password@host,host:port/path?parameters`.

use lock_core::LockError;
use lock_core::backend::UrlParameters;
#[cfg(any(feature = "quorum", feature = "sentinel"))]
use redis::RedisConnectionInfo;

use crate::topology::options::{RedisOptions, unusable};
use crate::wire::opening::Opener;

/// Several hosts, which are reached in the same way.
#[derive(Clone)]
pub(crate) struct Hosts {
    /// The opener of connections to the first.
    opener: Opener,
    /// Each with its port.
    pub(crate) addresses: Vec<String>,
}

impl Hosts {
    /// Returns the hosts of the URL of `options`, and the path behind them, or those of the driver's settings. A host
    /// without a port gets `port`.
    pub(crate) fn of(options: &RedisOptions, port: u16) -> Result<(Self, String), LockError> {
        if let Some(servers) = options.servers_of_driver() {
            let addresses = servers.iter().map(|server| server.addr().to_string()).collect();
            return Ok((Self { opener: options.opener()?, addresses }, String::new()));
        }
        let parameters = options.parameters();
        let servers = parameters.servers(FORM, port)?;
        let login = servers.login.filter(|login| !login.is_empty());
        if login.is_some_and(|login| login.contains('@')) {
            return Err(unusable(
                "user and password are the same for all hosts: write them once, before the first; write @ as %40",
            ));
        }
        let scheme = if options.scheme().starts_with("rediss") { "rediss" } else { "redis" };
        let login = login.map(|login| format!("{login}@")).unwrap_or_default();
        let first =
            format!("{scheme}://{login}{}/{}", servers.addresses[0], parameters_of(&parameters));
        let hosts = Self { opener: options.at(first).opener()?, addresses: servers.addresses };
        hosts.addresses.iter().try_for_each(|address| hosts.opener(address).map(drop))?;
        Ok((hosts, servers.path.to_owned()))
    }

    /// Returns the same hosts with another database; an empty text is database 0.
    #[cfg(any(feature = "quorum", feature = "sentinel"))]
    pub(crate) fn with_database(self, database: &str) -> Result<Self, LockError> {
        let number = if database.is_empty() { Ok(0) } else { database.parse() };
        let number = number.map_err(|_| UrlParameters::of("").malformed(FORM))?;
        let settings = self.opener.info().redis_settings().clone().set_db(number);
        self.with_settings(settings)
    }

    /// Returns the same hosts with other settings.
    #[cfg(any(feature = "quorum", feature = "sentinel"))]
    pub(crate) fn with_settings(self, settings: RedisConnectionInfo) -> Result<Self, LockError> {
        let opener = self
            .opener
            .with_settings(settings.set_skip_set_lib_name())
            .map_err(|_| not_accepted())?;
        Ok(Self { opener, ..self })
    }

    /// Returns the same hosts as sentinels, with another user and password, or with none.
    #[cfg(feature = "sentinel")]
    pub(crate) fn with_sentinel_login(self, user: &str, password: &str) -> Result<Self, LockError> {
        let protocol = self.opener.info().redis_settings().protocol();
        let mut settings = RedisConnectionInfo::default().set_protocol(protocol);
        if !user.is_empty() {
            settings = settings.set_username(user);
        }
        if !password.is_empty() {
            settings = settings.set_password(password);
        }
        self.with_settings(settings).map(Self::at_sentinels)
    }

    /// Returns the same hosts with the provider's credentials at sentinels.
    #[cfg(feature = "sentinel")]
    pub(crate) fn at_sentinels(self) -> Self {
        Self { opener: self.opener.at_sentinels(), ..self }
    }

    /// Returns the opener of connections to the host at `address`.
    pub(crate) fn opener(&self, address: &str) -> Result<Opener, LockError> {
        let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|_| !bare.is_empty() && !bare.contains(['[', ']']));
        let opener = port.and_then(|port| self.opener.at(bare, port).ok());
        opener.ok_or_else(not_accepted)
    }
}

fn not_accepted() -> LockError {
    unusable("the driver does not accept it; check address and TLS")
}

/// Returns host and port as in a URL, with brackets for an IPv6 address.
#[cfg(any(test, feature = "cluster", feature = "sentinel"))]
pub(crate) fn host_and_port(host: &str, port: u16) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// Returns the parameters as in a URL, with their question mark.
fn parameters_of(parameters: &UrlParameters) -> String {
    parameters.url().split_off(parameters.base().len())
}

const FORM: &str = "redis-…://[user:password@]host[:port][,host[:port]…]";

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(url: &str) -> Result<(Hosts, String), LockError> {
        Hosts::of(&RedisOptions::new(url), 6379)
    }

    #[test]
    fn several_hosts_share_what_stands_around_them() {
        let url = "redis-cluster://u:p%2C@a,b:7000,[::1],[::1]:7001/name?protocol=resp3";
        let (hosts, path) = hosts(url).expect("hosts");
        assert_eq!(hosts.addresses, ["a:6379", "b:7000", "[::1]:6379", "[::1]:7001"]);
        let last = hosts.opener(&hosts.addresses[3]).expect("an address");
        assert_eq!((last.info().addr().to_string(), &*path), ("::1:7001".to_owned(), "name"));
        let settings = last.info().redis_settings();
        assert_eq!((settings.username(), settings.password()), (Some("u"), Some("p,")));
        assert_eq!(settings.protocol(), redis::ProtocolVersion::RESP3);
        assert_eq!(host_and_port("::1", 7000), "[::1]:7000");
    }
}
