//! Where the locks are.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use leasehold::{Connector, LockClient};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::exit::{Exit, Failure};

/// What has a meaning of its own in a file URL.
const SPECIAL: &AsciiSet = &CONTROLS.add(b'%').add(b'?').add(b'#');

/// Where the locks are, and who knows how to get there.
pub(crate) struct Place<'a> {
    /// What `--url` said.
    typed: Option<&'a str>,
    connector: &'a Connector,
}

impl<'a> Place<'a> {
    pub(crate) fn new(typed: Option<&'a str>, connector: &'a Connector) -> Self {
        Self { typed, connector }
    }

    /// A client of the locks at the URL that was typed, or at LEASEHOLD_URL, or in this user's own
    /// directory.
    ///
    /// They have to be the same locks for all who name them so.
    pub(crate) async fn connect(&self) -> Result<LockClient, Failure> {
        let url = chosen(self.typed)?;
        if url.starts_with("memory:") {
            return Err(usage("locks in memory exclude no other process: choose file:/DIRECTORY"));
        }
        if url.strip_prefix("file:").is_some_and(|path| !path.starts_with('/')) {
            return Err(usage(
                "a directory of locks is named from the root, as file:/var/lib/locks: others have \
                 other working directories, and nobody expands `~` within a URL",
            ));
        }
        Ok(self.connector.connect(&url).await?)
    }

    /// Names the store for people, without what may be secret.
    pub(crate) fn shown(&self) -> String {
        without_secrets(&chosen(self.typed).unwrap_or_default())
    }

    /// The same to measure with, for which memory is as good as any.
    pub(crate) async fn connect_to_measure(&self) -> Result<LockClient, Failure> {
        match chosen(self.typed)? {
            url if url.starts_with("memory:") => Ok(self.connector.connect(&url).await?),
            _ => self.connect().await,
        }
    }
}

/// A URL that was connected to, without user, password and parameters.
fn without_secrets(url: &str) -> String {
    // C32: `url` was understood, so nothing of a password stands behind the last `@` before the parameters.
    let url = url.split('?').next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let hosts = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
            format!("{scheme}://{hosts}")
        }
        None => url.to_owned(),
    }
}

fn chosen(typed: Option<&str>) -> Result<String, Failure> {
    let url = typed.map(OsString::from).or_else(|| env::var_os("LEASEHOLD_URL"));
    match url.filter(|url| !url.is_empty()) {
        Some(url) => url.into_string().map_err(|_| usage("LEASEHOLD_URL is not UTF-8")),
        None => own_directory(),
    }
}

/// `$XDG_STATE_HOME/leasehold`, or `~/.local/state/leasehold`, as a URL.
fn own_directory() -> Result<String, Failure> {
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/state")))
        .ok_or_else(|| missing("neither XDG_STATE_HOME nor HOME is the path of a directory"))?;
    let directory = state.join("leasehold");
    let path = directory.to_str().ok_or_else(|| missing("the state directory is not UTF-8"))?;
    Ok(format!("file:{}", utf8_percent_encode(path, SPECIAL)))
}

/// The specification of XDG_STATE_HOME wants relative paths ignored.
fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn missing(why: &str) -> Failure {
    usage(&format!("{why}: say where the locks are by --url or LEASEHOLD_URL"))
}

fn usage(message: &str) -> Failure {
    Failure::new(Exit::Usage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c32_where_the_locks_are_is_told_without_secrets() {
        for (url, shown) in [
            ("redis://u:sec@ret@h:1/3?prefix=a:", "redis://h:1/3"),
            ("redis-quorum://:secret@a,b,c", "redis-quorum://a,b,c"),
            ("redis-sentinel://a/m?sentinel_pass=secret", "redis-sentinel://a/m"),
            ("redis+unix:///x?pass=secret", "redis+unix:///x"),
            ("postgres://h/db?password=secret", "postgres://h/db"),
            ("file:/var/lib/locks", "file:/var/lib/locks"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }
}
