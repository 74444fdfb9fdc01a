//! Options of a directory of locks.

use std::path::Path;

use lock_core::LockError;

use crate::machine::Machine;
use crate::path::FileSystem;
use crate::{FileBackend, FileFence};

/// Options for locks and fences on a file system that is not known to be local. For others a path alone is enough.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let home = tempfile::tempdir()?;
/// # let directory = home.path().join("locks");
/// use lock_file::FileOptions;
///
/// // A FUSE file system that no other machine mounts:
/// let locks = FileOptions::new().local_file_system().open(&directory)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until they open something"]
pub struct FileOptions {
    file_system: FileSystem,
}

impl FileOptions {
    /// The options of [`FileBackend::open`] and [`FileFence::open`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares the file system as local, whatever it is: no other machine can reach the directory. In a URL it is
    /// `?filesystem=local`.
    ///
    /// If another machine can still reach it, **two may hold one lock**.
    pub fn local_file_system(mut self) -> Self {
        self.file_system = FileSystem::SaidToBeLocal;
        self
    }

    /// Opens a directory of locks.
    ///
    /// # Errors
    /// As [`FileBackend::open`].
    pub fn open(&self, dir: impl AsRef<Path>) -> Result<FileBackend, LockError> {
        FileBackend::on(Machine::this()?, dir.as_ref(), self.file_system)
    }

    /// Opens a fence.
    ///
    /// # Errors
    /// As [`FileFence::open`].
    pub fn open_fence(&self, path: impl AsRef<Path>) -> Result<FileFence, LockError> {
        FileFence::on(path.as_ref(), self.file_system)
    }
}
