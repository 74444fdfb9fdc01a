//! URLs with several hosts: `redis-cluster://user:password@host,host:port/path?parameters`.

use lock_core::LockError;
use lock_core::backend::UrlParameters;

use crate::topology::options::{RedisOptions, unusable};
use crate::wire::opening::Opener;

/// Several hosts, and the common parts of their URLs.
#[derive(Clone)]
pub(crate) struct Hosts {
    options: RedisOptions,
    scheme: &'static str,
    /// User and password, and the `@` behind them.
    login: String,
    /// The part of the URL behind the addresses: a slash, and perhaps a database.
    database: String,
    /// The parameters behind the database.
    parameters: String,
    /// Each with its port.
    pub(crate) addresses: Vec<String>,
}

impl Hosts {
    /// Returns the hosts of the URL of `options`, and the path behind them. A host without a port gets `port`.
    pub(crate) fn of(options: &RedisOptions, port: u16) -> Result<(Self, String), LockError> {
        let parameters = options.parameters();
        let servers = parameters.servers(FORM, port)?;
        let login = servers.login.filter(|login| !login.is_empty());
        if login.is_some_and(|login| login.contains('@')) {
            return Err(unusable(
                "user and password are the same for all hosts: write them once, before the first; write @ as %40",
            ));
        }
        let path = servers.path.to_owned();
        let hosts = Self {
            options: options.clone(),
            scheme: if options.scheme().starts_with("rediss") { "rediss" } else { "redis" },
            login: login.map(|login| format!("{login}@")).unwrap_or_default(),
            database: "/".to_owned(),
            parameters: parameters_of(&parameters),
            addresses: servers.addresses,
        };
        hosts.addresses.iter().try_for_each(|address| hosts.opener(address).map(drop))?;
        Ok((hosts, path))
    }

    /// Returns the same hosts with another database.
    #[cfg(any(feature = "quorum", feature = "sentinel"))]
    pub(crate) fn with_database(self, database: &str) -> Self {
        Self { database: format!("/{database}"), ..self }
    }

    /// Returns the same hosts as sentinels, with another user and password, or with none.
    #[cfg(feature = "sentinel")]
    pub(crate) fn as_sentinels(self, user: &str, password: &str) -> Self {
        let login = match (user, password) {
            ("", "") => String::new(),
            _ => format!("{}:{}@", encoded(user), encoded(password)),
        };
        Self { login, options: self.options.at_sentinels(), ..self }
    }

    /// Returns the opener of connections to the host at `address`.
    pub(crate) fn opener(&self, address: &str) -> Result<Opener, LockError> {
        let Self { scheme, login, database, parameters, .. } = self;
        self.options.at(format!("{scheme}://{login}{address}{database}{parameters}")).opener()
    }
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

/// Returns the text percent-encoded, so that every character is data.
#[cfg(feature = "sentinel")]
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
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
        assert_eq!((&*hosts.login, &*path), ("u:p%2C@", "name"));
        assert_eq!(hosts.parameters, "?protocol=resp3");
        assert_eq!(host_and_port("::1", 7000), "[::1]:7000");
    }
}
