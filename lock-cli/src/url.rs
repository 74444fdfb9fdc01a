//! The place of the locks.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, io};

use leasehold::core::backend::UrlParameters;
use leasehold::{ClientOptions, Connector, LockClient};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::args::Cli;
use crate::exit::{Exit, Failure};
use crate::terminal;
use crate::url_file::UrlFile;

/// Characters with a meaning in a file URL.
const SPECIAL: &AsciiSet = &CONTROLS.add(b'%').add(b'?').add(b'#');

/// The place of the locks, and the connector that can open it.
pub(crate) struct StoreUrl<'a> {
    url: String,
    connector: &'a Connector,
    /// The file of the URL, if it can be read again.
    file: Option<UrlFile>,
    /// True if no URL was given.
    is_default: bool,
}

impl<'a> StoreUrl<'a> {
    /// Chooses the typed URL, the URL in the file, LEASEHOLD_URL, or else this user's own directory.
    pub(crate) fn new(cli: &Cli, connector: &'a Connector) -> Result<Self, Failure> {
        let typed = cli.url.as_ref().map(|url| (url.clone(), "--url".to_owned()));
        let (url, from) = match (typed, &cli.url_file) {
            (Some(typed), _) => typed,
            (None, Some(path)) => {
                (read("--url-file", path)?.trim().to_owned(), path.display().to_string())
            }
            (None, None) => match env::var_os("LEASEHOLD_URL").map(OsString::into_string) {
                // A secret often ends with the end of its line.
                Some(Ok(url)) => (url.trim().to_owned(), "LEASEHOLD_URL".to_owned()),
                Some(Err(_)) => return Err(usage("LEASEHOLD_URL is not UTF-8")),
                None => {
                    let url = own_directory()?;
                    return Ok(Self { url, connector, file: None, is_default: true });
                }
            },
        };
        // A missing secret must not give each machine its own locks.
        if url.is_empty() {
            let remedy =
                "give it a URL, or leave it out for the locks of this user on this machine alone";
            return Err(usage(&format!("{from} is empty: {remedy}")));
        }
        let file = cli.url_file.as_deref().and_then(|path| UrlFile::of(path, &url));
        Ok(Self { url, connector, file, is_default: false })
    }

    /// Returns a client of the locks. They must be the same locks for all who name them like this.
    pub(crate) async fn connect(&self) -> Result<LockClient, Failure> {
        self.connect_within(Duration::ZERO, ClientOptions::new()).await
    }

    /// Connects, and retries for this long while the server is away.
    pub(crate) async fn connect_within(
        &self,
        patience: Duration,
        options: ClientOptions,
    ) -> Result<LockClient, Failure> {
        tracing::info!("locks are at {}", self.described());
        if self.url.starts_with("memory:") {
            return Err(usage("locks in memory exclude no other process: choose file:/DIRECTORY"));
        }
        if self.url.strip_prefix("file:").is_some_and(|path| !path.starts_with('/')) {
            return Err(usage(
                "a directory of locks is named from the root, as file:/var/lib/locks: other processes \
                 may have other working directories, and `~` is not expanded in a URL",
            ));
        }
        let mut connector = self.connector.clone().retry_for(patience);
        if let Some(file) = &self.file {
            connector = connector.credentials(file.clone());
        }
        Ok(connector.connect_with(&self.url, options).await?)
    }

    /// Warns of locks that no other host sees, for a command whose purpose is to run on one of several hosts.
    pub(crate) fn warn_if_local(&self) {
        let whose = match self.is_default {
            true => "no URL of the locks is given, so each user of each host has locks of its own",
            false if self.url.starts_with("file:") => {
                "the locks are files of this host, so each host runs the command"
            }
            false => return,
        };
        terminal::warning(&format!("{whose}: name a server by --url or LEASEHOLD_URL"));
    }

    /// Returns the name of the store for people, without secrets.
    pub(crate) fn shown(&self) -> String {
        UrlParameters::of(&self.url).shown()
    }

    /// Returns the name of the store, and a remark if no other machine shares its locks.
    pub(crate) fn described(&self) -> String {
        let shown = self.shown();
        if shown.starts_with("file:") { format!("{shown} (this machine alone)") } else { shown }
    }
}

/// Returns the text of the file that an option names. Refuses a file that everybody may write: whoever writes the file
/// would choose the locks of this process.
pub(crate) fn read(option: &str, path: &Path) -> Result<String, Failure> {
    let refused = |why: &str| usage(&format!("{option} {}: {why}", path.display()));
    let unread = |error: io::Error| refused(&error.to_string());
    let mut file = File::open(path).map_err(unread)?;
    let found = file.metadata().map_err(unread)?;
    if found.is_file() && found.mode() & 0o002 != 0 {
        return Err(refused("everybody may write it: `chmod o-w` it"));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unread)?;
    Ok(text)
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
