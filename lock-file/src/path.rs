//! Decides if a path is suitable for locks.

use std::io;
use std::path::{Path, PathBuf};

use lock_core::{LockError, Outcome};

use crate::{fault, platform};

/// Suitable file systems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FileSystem {
    /// File systems that are known to belong to one machine.
    #[default]
    KnownToBeLocal,
    /// Any: the user has declared that no other machine can reach the directory.
    SaidToBeLocal,
}

impl FileSystem {
    /// Refuses a path if another machine may not see its file locks, or not at once.
    pub(crate) fn refuse_foreign(self, path: &Path) -> Result<(), LockError> {
        let foreign = match self {
            Self::KnownToBeLocal => platform::foreign_file_system(path),
            Self::SaidToBeLocal => Ok(None),
        };
        match foreign.map_err(|error| unusable("examine", path, error))? {
            None => Ok(()),
            Some(kind) => Err(config(format!(
                "{} is on {kind}, which other machines may reach: choose a directory on a local \
                 disk, or a backend with a server; if no other machine can reach it, say so by \
                 `?filesystem=local` in the URL, or by `FileOptions::local_file_system`",
                path.display()
            ))),
        }
    }
}

/// Refuses a directory that this user cannot use, or that others can use too.
pub(crate) fn check_folder(path: &Path) -> Result<(), LockError> {
    let checked = platform::refuse_strangers(path).and_then(|()| platform::check_folder(path));
    checked.map_err(|error| unusable("use", path, error))
}

/// Returns the absolute path, without a slash at its end. It stays valid when the process changes its directory.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, LockError> {
    let path = std::path::absolute(path).map_err(|error| unusable("find", path, error))?;
    Ok(path.components().collect())
}

/// Makes the name of a new or replaced file outlast a crash of the machine.
pub(crate) fn sync_folder_of(file: &Path) -> io::Result<()> {
    match file.parent() {
        // The folder of a bare name is the working directory.
        Some(folder) if folder.as_os_str().is_empty() => platform::sync_folder(Path::new(".")),
        Some(folder) => platform::sync_folder(folder),
        None => Ok(()),
    }
}

/// The error of a path that cannot be used, at least not now.
pub(crate) fn unusable(doing: &str, path: &Path, error: io::Error) -> LockError {
    let what = format!("{}, which this user has to be able to write", path.display());
    let source = fault::refused(doing, &what, Outcome::NotApplied, error);
    LockError::Backend { operation: "open the locks", name: None, source }
}

fn config(message: String) -> LockError {
    LockError::Config { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_bare_name_is_the_working_directory() {
        for file in ["Cargo.toml", "./Cargo.toml", "src/path.rs", "/tmp"] {
            assert!(sync_folder_of(Path::new(file)).is_ok(), "{file}");
        }
        assert!(sync_folder_of(Path::new("nowhere/file")).is_err());
    }
}
