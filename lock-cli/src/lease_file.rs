//! The file of a lease: a hold that one command acquires and another gives back.

use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use leasehold::core::Lease;
use tempfile::NamedTempFile;

use crate::exit::{Exit, Failure};
use crate::url;

/// A file to be written, for its user alone. It has its name once the lease is in it.
pub(crate) struct LeaseFile {
    path: PathBuf,
    unnamed: NamedTempFile,
}

impl LeaseFile {
    /// Makes sure that the file can be written, before a lock is acquired for it.
    pub(crate) fn new(path: &Path) -> Result<Self, Failure> {
        let unwritten = |error: &dyn Display| unwritten(path, error);
        if path.try_exists().map_err(|error| unwritten(&error))? {
            let remedy = "it exists; `leasehold release --lease` gives back its hold";
            return Err(Failure::new(Exit::Usage, format!("--lease {}: {remedy}", path.display())));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let unnamed = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
        Ok(Self { path: path.to_owned(), unnamed: unnamed.map_err(|error| unwritten(&error))? })
    }

    /// Writes the store's name for people, and the lease.
    pub(crate) fn write(mut self, lease: &Lease, store: &str) -> Result<(), Failure> {
        let written = writeln!(self.unnamed, "{store}\n{}", lease.export());
        let synced = written.and_then(|()| self.unnamed.as_file().sync_all());
        synced.map_err(|error| unwritten(&self.path, &error))?;
        let named = self.unnamed.persist_noclobber(&self.path);
        named.map(drop).map_err(|error| unwritten(&self.path, &error.error))
    }
}

/// Reads the lease in a file. Fails if the lease is of another store than `store`, where nobody knows the hold.
pub(crate) fn read(path: &Path, store: &str) -> Result<Lease, Failure> {
    let refused =
        |why: &dyn Display| Failure::new(Exit::Usage, format!("--lease {}: {why}", path.display()));
    let text = url::read("--lease", path)?;
    let (acquired_at, lease) = text.split_once('\n').unwrap_or_default();
    // The name of a lock may end with a space.
    let lease = Lease::import(lease.trim_end_matches(['\r', '\n'])).map_err(|why| refused(&why))?;
    if acquired_at != store {
        let remedy = "give the URL of that store; if both are names of one store, write the \
                      second into the first line of the file";
        return Err(refused(&format!(
            "the lock is held at {acquired_at}, not at {store}: {remedy}"
        )));
    }
    Ok(lease)
}

/// Removes the file of a hold that is over.
pub(crate) fn remove(path: &Path) -> Result<(), Failure> {
    fs::remove_file(path).map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &dyn Display) -> Failure {
    Failure::new(Exit::Output, format!("--lease {}: {error}", path.display()))
}
