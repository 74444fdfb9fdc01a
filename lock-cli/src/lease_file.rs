//! The file of a lease: a hold that one command acquires and another gives back.

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
        let unwritten = |error: &dyn std::fmt::Display| unwritten(path, error);
        if path.try_exists().map_err(|error| unwritten(&error))? {
            let remedy = "it exists; `leasehold release --lease` gives back its hold";
            return Err(Failure::new(Exit::Usage, format!("--lease {}: {remedy}", path.display())));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let unnamed = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
        Ok(Self { path: path.to_owned(), unnamed: unnamed.map_err(|error| unwritten(&error))? })
    }

    pub(crate) fn write(mut self, lease: &Lease) -> Result<(), Failure> {
        let written = writeln!(self.unnamed, "{}", lease.export());
        let synced = written.and_then(|()| self.unnamed.as_file().sync_all());
        synced.map_err(|error| unwritten(&self.path, &error))?;
        let named = self.unnamed.persist_noclobber(&self.path);
        named.map(drop).map_err(|error| unwritten(&self.path, &error.error))
    }
}

/// Reads the lease in a file.
pub(crate) fn read(path: &Path) -> Result<Lease, Failure> {
    let text = url::read("--lease", path)?;
    // The name of a lock may end with a space.
    Lease::import(text.trim_end_matches(['\r', '\n'])).map_err(|refused| {
        Failure::new(Exit::Usage, format!("--lease {}: {refused}", path.display()))
    })
}

/// Removes the file of a hold that is over.
pub(crate) fn remove(path: &Path) -> Result<(), Failure> {
    fs::remove_file(path).map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Output, format!("--lease {}: {error}", path.display()))
}
