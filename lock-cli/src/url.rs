//! The place of the locks.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use leasehold::core::backend::UrlParameters;
use leasehold::{Connector, LockClient};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::args::Cli;
use crate::exit::{Exit, Failure};

/// Characters with a meaning in a file URL.
const SPECIAL: &AsciiSet = &CONTROLS.add(b'%').add(b'?').add(b'#');

/// The place of the locks, and the connector that can open it.
pub(crate) struct StoreUrl<'a> {
    /// The value of `--url`.
    typed: Option<&'a str>,
    /// The value of `--url-file`.
    file: Option<&'a Path>,
    connector: &'a Connector,
}

impl<'a> StoreUrl<'a> {
    pub(crate) fn new(cli: &'a Cli, connector: &'a Connector) -> Self {
        Self { typed: cli.url.as_deref(), file: cli.url_file.as_deref(), connector }
    }

    /// Returns a client of the locks at the typed URL, at the URL in the file, at LEASEHOLD_URL, or else in this
    /// user's own directory.
    ///
    /// They must be the same locks for all who name them like this.
    pub(crate) async fn connect(&self) -> Result<LockClient, Failure> {
        self.connect_within(Duration::ZERO).await
    }

    /// Connects, and retries for this long while the server is away.
    pub(crate) async fn connect_within(&self, patience: Duration) -> Result<LockClient, Failure> {
        let url = self.chosen()?;
        tracing::info!("locks are at {}", self.described());
        if url.starts_with("memory:") {
            return Err(usage("locks in memory exclude no other process: choose file:/DIRECTORY"));
        }
        if url.strip_prefix("file:").is_some_and(|path| !path.starts_with('/')) {
            return Err(usage(
                "a directory of locks is named from the root, as file:/var/lib/locks: other processes \
                 may have other working directories, and `~` is not expanded in a URL",
            ));
        }
        Ok(self.connector.clone().retry_for(patience).connect(&url).await?)
    }

    /// Returns the name of the store for people, without secrets.
    pub(crate) fn shown(&self) -> String {
        UrlParameters::of(&self.chosen().unwrap_or_default()).shown()
    }

    /// Returns the name of the store, and a remark if no other machine shares its locks.
    pub(crate) fn described(&self) -> String {
        let shown = self.shown();
        if shown.starts_with("file:") { format!("{shown} (this machine alone)") } else { shown }
    }

    fn chosen(&self) -> Result<String, Failure> {
        let (url, from) = match (self.typed, self.file) {
            (Some(typed), _) => (typed.to_owned(), "--url".to_owned()),
            (None, Some(path)) => (read(path)?, path.display().to_string()),
            (None, None) => match env::var_os("LEASEHOLD_URL").map(OsString::into_string) {
                // A secret often ends with the end of its line.
                Some(Ok(url)) => (url.trim().to_owned(), "LEASEHOLD_URL".to_owned()),
                Some(Err(_)) => return Err(usage("LEASEHOLD_URL is not UTF-8")),
                None => return own_directory(),
            },
        };
        // A missing secret must not give each machine its own locks.
        if url.is_empty() {
            let remedy =
                "give it a URL, or leave it out for the locks of this user on this machine alone";
            return Err(usage(&format!("{from} is empty: {remedy}")));
        }
        Ok(url)
    }

    /// Connects for a measurement; memory is as good as any store.
    pub(crate) async fn connect_to_measure(&self) -> Result<LockClient, Failure> {
        match self.chosen()? {
            url if url.starts_with("memory:") => Ok(self.connector.connect(&url).await?),
            _ => self.connect().await,
        }
    }
}

/// Returns the URL in a file, without the end of its line.
fn read(path: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| usage(&format!("--url-file {}: {error}", path.display())))?;
    Ok(text.trim().to_owned())
}

/// Returns `~/.local/state/leasehold` as a URL: one directory for a user, in a shell as well as under cron, which has
/// no `XDG_STATE_HOME`.
fn own_directory() -> Result<String, Failure> {
    let home = env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = home.ok_or_else(|| missing("HOME is not the path of a directory"))?;
    let directory = home.join(".local/state/leasehold");
    let path = directory.to_str().ok_or_else(|| missing("the state directory is not UTF-8"))?;
    Ok(format!("file:{}", utf8_percent_encode(path, SPECIAL)))
}

fn missing(why: &str) -> Failure {
    usage(&format!("{why}: give the URL of the locks by --url or LEASEHOLD_URL"))
}

fn usage(message: &str) -> Failure {
    Failure::new(Exit::Usage, message)
}
