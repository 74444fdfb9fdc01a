//! New contents of a file, complete before they replace it.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use lock_core::{BackendError, Outcome};

use crate::digest::hex_digest;
use crate::fault;
use crate::path::sync_folder_of;
use crate::platform;

/// Access to a new file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Privacy {
    /// Access for the file's owner alone.
    Private,
    /// The usual access to new files of the process.
    Usual,
}

/// A file that was replaced.
#[must_use = "a crash of the machine may undo what was not synced"]
pub(crate) struct Placed(PathBuf);

/// The new contents of a file, in a file beside it. Dropped, that file is removed.
#[derive(Debug)]
pub(crate) struct Replacement {
    beside: PathBuf,
    target: PathBuf,
}

impl Replacement {
    /// Writes `contents` beside `target` for the writer with this name: a locked fence, or a writer that writes once.
    pub(crate) fn write(
        writer: &str,
        target: &Path,
        contents: &[u8],
        privacy: Privacy,
    ) -> Result<Self, BackendError> {
        let replacement =
            Self { beside: target.with_file_name(hidden_name(writer)), target: target.to_owned() };
        let filled = replacement.fill(contents, privacy);
        filled.map_err(|error| replacement.refused("write beside", error))?;
        Ok(replacement)
    }

    /// Replaces the target.
    pub(crate) fn put_in_place(self) -> Result<Placed, BackendError> {
        let renamed = fs::rename(&self.beside, &self.target);
        renamed.map_err(|error| self.refused("replace", error))?;
        Ok(Placed(self.target.clone()))
    }

    fn fill(&self, contents: &[u8], privacy: Privacy) -> io::Result<()> {
        remove_if_there(&self.beside)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if privacy == Privacy::Private {
            platform::make_private(&mut options);
        }
        let mut file = options.open(&self.beside)?;
        // The rights are set before the contents are written, since the contents may be private.
        if let Some(old) = metadata_if_there(&self.target)? {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(contents)?;
        file.sync_all()
    }

    fn refused(&self, doing: &str, error: io::Error) -> BackendError {
        let target = self.target.display();
        fault::refused(doing, &target, Outcome::NotApplied, error)
    }
}

impl Placed {
    /// Makes the replacement outlast a crash of the machine.
    pub(crate) fn sync(self) -> Result<(), BackendError> {
        let Self(target) = self;
        let synced = sync_folder_of(&target);
        let outcome = Outcome::Unknown;
        synced.map_err(|error| {
            fault::refused("sync the folder of", &target.display(), outcome, error)
        })
    }
}

impl Drop for Replacement {
    /// After the replacement there is nothing to remove.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.beside);
    }
}

/// All writes through a fence use the same name in a directory. The fence admits one at a time, and each first
/// removes the file that a killed write has left.
fn hidden_name(writer: &str) -> String {
    format!(".leasehold-{}.tmp", &hex_digest(writer)[..16])
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn metadata_if_there(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
