//! The servers of a URL, with user and password: the part before its question mark.

use percent_encoding::percent_decode_str;

use super::url_parameters::UrlParameters;
use crate::model::LockError;

/// The servers that a URL of the form `scheme://[user:password@]host[:port][,host[:port]…][/path]` names.
///
/// ```
/// use lock_core::backend::UrlParameters;
///
/// let url = UrlParameters::of("etcd://shop:p%40ss@a,[::1]:7/locks/");
/// let servers = url.servers("etcd://[user:password@]host[:port][,host[:port]…][/root]", 2379)?;
/// assert_eq!(servers.addresses, ["a:2379", "[::1]:7"]);
/// assert_eq!(servers.credentials()?, Some(("shop".into(), "p@ss".into())));
/// assert_eq!(servers.root()?.as_deref(), Some("locks"));
/// # Ok::<(), lock_core::LockError>(())
/// ```
pub struct Servers<'a> {
    url: &'a UrlParameters,
    form: &'a str,
    port: u16,
    /// Text before `://`.
    pub scheme: &'a str,
    /// User and password as in the URL, without the `@` behind them.
    pub login: Option<&'a str>,
    /// Address of each server, with its port, and with brackets around an IPv6 address.
    pub addresses: Vec<String>,
    /// Text behind the slash after the addresses; empty if there is none.
    pub path: &'a str,
}

impl UrlParameters {
    /// Returns the servers of a URL of the form `form`, which errors show. A server without a port gets `port`.
    ///
    /// # Errors
    /// [`LockError::Config`] if the URL does not have the form, or names no server: see [`malformed`](Self::malformed).
    pub fn servers<'a>(&'a self, form: &'a str, port: u16) -> Result<Servers<'a>, LockError> {
        let (scheme, rest) = self.base().split_once("://").unwrap_or_default();
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let login = authority.rsplit_once('@').map(|(login, _)| login);
        let hosts = authority.rsplit('@').next().unwrap_or_default();
        let addresses = Vec::new();
        let mut servers = Servers { url: self, form, port, scheme, login, addresses, path };
        hosts.split(',').try_for_each(|host| servers.add(host))?;
        Ok(servers)
    }

    /// Returns the error of a URL that does not have this form, with the usual reason.
    pub fn malformed(&self, form: &str) -> LockError {
        let url = self.url();
        let (_, rest) = url.split_once("://").unwrap_or_default();
        let (authority, behind) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let mut hint = "";
        if !authority.contains('@') && behind.contains('@') {
            hint = ". In user and password write / as %2F, ? as %3F, # as %23 and @ as %40";
        } else if authority.contains('[') && authority.contains('%') {
            hint = ". An IPv6 address has no zone there, such as %eth0: give the host a name";
        }
        let message = format!("the URL cannot be used: it is not of the form {form}{hint}");
        LockError::Config { message }
    }
}

impl Servers<'_> {
    /// Adds a server: `host`, `host:port` or `[host]:port`.
    ///
    /// # Errors
    /// [`LockError::Config`] if it is none of these.
    pub fn add(&mut self, server: &str) -> Result<(), LockError> {
        let address = address(server, self.port);
        self.addresses.push(address.ok_or_else(|| self.url.malformed(self.form))?);
        Ok(())
    }

    /// Returns user and password, percent-decoded.
    ///
    /// # Errors
    /// [`LockError::Config`] if the login has no colon, or is not UTF-8.
    pub fn credentials(&self) -> Result<Option<(String, String)>, LockError> {
        let Some(login) = self.login else { return Ok(None) };
        let (user, password) =
            login.split_once(':').ok_or_else(|| self.url.malformed(self.form))?;
        Ok(Some((self.decoded(user)?, self.decoded(password)?)))
    }

    /// Returns the path, percent-decoded and without outer slashes; `None` if the path is empty.
    ///
    /// # Errors
    /// [`LockError::Config`] if it is not UTF-8.
    pub fn root(&self) -> Result<Option<String>, LockError> {
        let path = self.path.trim_matches('/');
        (!path.is_empty()).then(|| self.decoded(path)).transpose()
    }

    fn decoded(&self, text: &str) -> Result<String, LockError> {
        let decoded = percent_decode_str(text).decode_utf8();
        decoded.map(Into::into).map_err(|_| self.url.malformed(self.form))
    }
}

/// Returns the address of a server, with its port.
fn address(text: &str, default: u16) -> Option<String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (text, default),
    };
    let is_good = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    let is_host = !host.is_empty() && host.chars().all(is_good);
    (is_host && host.starts_with('[') == host.contains(':') && port > 0)
        .then(|| format!("{host}:{port}"))
}

impl std::fmt::Debug for Servers<'_> {
    /// Shows nothing of the login.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Servers").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &str = "x://host";

    #[test]
    fn a_url_names_servers_login_and_path() {
        let url = UrlParameters::of("x://u:p%2C@a,b:7000,[::1],[::1]:7001/name/?more=1");
        let servers = url.servers(FORM, 6379).expect("servers");
        assert_eq!(servers.addresses, ["a:6379", "b:7000", "[::1]:6379", "[::1]:7001"]);
        assert_eq!((servers.scheme, servers.login, servers.path), ("x", Some("u:p%2C"), "name/"));
        let least = UrlParameters::of("x://a");
        let least = least.servers(FORM, 1).expect("a server");
        assert_eq!(least.credentials().expect("none"), None);
        assert_eq!((least.root().expect("none"), least.path), (None, ""));
    }

    #[test]
    fn c32_a_malformed_url_is_refused_without_its_password() {
        for url in [
            "", "x:a", "x://", "x://u:secret@", "x://u:secret@a,", "x://u:secret@a,,b",
            "x://a:port", "x://u:secret@a:99999", "x://u:secret@a:0", "x://u:secret@a b",
            "x://u:secret@::1", "x://secret@a", "x://u:secret%ff@a", "x://a/%ff",
            "x://u:sec/ret@a",
        ] {
            let url = UrlParameters::of(url);
            let read = url.servers(FORM, 1);
            let read = read.and_then(|read| read.credentials().and_then(|_| read.root()));
            let text = read.expect_err("malformed").to_string();
            assert!(
                text.contains(FORM) && !text.contains("secret") && !text.contains("ret@"),
                "{text}"
            );
        }
    }
}
