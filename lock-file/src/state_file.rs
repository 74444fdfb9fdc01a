//! The files of locks and fences.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use lock_core::LockName;

use crate::creation::Creation;
use crate::platform;

/// A file with the state of a lock or of a fence: its path, and its name in messages.
#[derive(Clone, Debug)]
pub(crate) struct StateFile {
    pub(crate) path: PathBuf,
    pub(crate) of: StateOf,
}

/// Subject of a file's state.
#[derive(Clone, Debug)]
pub(crate) enum StateOf {
    Lock(LockName),
    /// A lock whose name is unknown before the file is read.
    UnknownLock,
    /// A recorded run of a lock.
    Run(LockName),
    /// A fence: the file keeps the greatest token that the resource has seen.
    Fence,
}

impl StateFile {
    /// Opens the file. A lock's file is private to this user, as its folder is.
    pub(crate) fn open(&self, creation: Creation) -> io::Result<File> {
        match (&self.of, self.path.parent(), self.path.file_name()) {
            (StateOf::Fence, _, _) => platform::open_anywhere(&self.path, creation),
            (_, Some(folder), Some(name)) => platform::open_folder(folder)?.open(name, creation),
            _ => Err(io::ErrorKind::InvalidFilename.into()),
        }
    }

    pub(crate) fn has_folder(&self) -> bool {
        self.path.parent().is_some_and(Path::exists)
    }

    /// Returns the remedy for a file that cannot be read.
    pub(crate) fn remedy(&self) -> &'static str {
        match self.of {
            StateOf::Lock(_) | StateOf::UnknownLock => {
                "use the version that wrote it, or remove the file when no process uses the lock"
            }
            StateOf::Run(_) => {
                "use the version that wrote it, or remove the file, and the run may run again"
            }
            StateOf::Fence => {
                "use the version that wrote it, or give the fence a file of its own that outlives \
                 its holders"
            }
        }
    }
}

impl fmt::Display for StateFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.of {
            StateOf::Lock(name) => write!(f, "{path} of lock \"{name}\""),
            StateOf::Run(name) => write!(f, "{path} of a run of lock \"{name}\""),
            StateOf::UnknownLock => write!(f, "{path}"),
            StateOf::Fence => write!(f, "fence {path}"),
        }
    }
}
