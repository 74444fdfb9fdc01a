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

    /// The same to measure with, for which memory is as good as any.
    pub(crate) async fn connect_to_measure(&self) -> Result<LockClient, Failure> {
        match chosen(self.typed)? {
            url if url.starts_with("memory:") => Ok(self.connector.connect(&url).await?),
            _ => self.connect().await,
        }
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
