//! What goes wrong with a file, in the words of the contract.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

use lock_core::{BackendError, LockName, Outcome};

/// The backend's name, as errors and metrics show it.
pub(crate) const BACKEND: &str = "file";

/// A file as messages call it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) keeps: Keeps,
}

/// What a file keeps.
#[derive(Clone, Debug)]
pub(crate) enum Keeps {
    /// The record of this lock.
    Lock(LockName),
    /// The record of a lock whose name is not known yet.
    SomeLock,
    /// The greatest token that a resource has seen.
    Fence,
}

impl Place {
    /// What to do about a file that cannot be read.
    fn remedy(&self) -> &'static str {
        match self.keeps {
            Keeps::Lock(_) | Keeps::SomeLock => "remove the file when no process uses the lock",
            Keeps::Fence => "give the fence a file of its own that outlives its holders",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.keeps {
            Keeps::Lock(name) => write!(f, "{path} of lock \"{name}\""),
            Keeps::SomeLock => write!(f, "{path}"),
            Keeps::Fence => write!(f, "fence {path}"),
        }
    }
}

/// The operating system refused.
pub(crate) fn refused(
    doing: &str,
    place: &dyn fmt::Display,
    outcome: Outcome,
    source: io::Error,
) -> BackendError {
    let context = format!("cannot {doing} {place}");
    if is_lasting(source.kind()) {
        BackendError::permanent(BACKEND, outcome, context, source)
    } else {
        BackendError::transient(BACKEND, outcome, context, source)
    }
}

/// Whether somebody must do something before a retry can help. A full disk or a process that is
/// out of file descriptors may pass by itself.
fn is_lasting(kind: ErrorKind) -> bool {
    use ErrorKind::{
        AlreadyExists, InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound,
        PermissionDenied, ReadOnlyFilesystem, Unsupported,
    };
    matches!(
        kind,
        AlreadyExists
            | InvalidFilename
            | InvalidInput
            | IsADirectory
            | NotADirectory
            | NotFound
            | PermissionDenied
            | ReadOnlyFilesystem
            | Unsupported
    )
}

/// Another process is inside its critical section for longer than any takes that runs.
pub(crate) fn stuck(place: &Place, waited: Duration) -> BackendError {
    let context = format!("cannot lock {place}");
    let source = format!("another process has kept it locked for {waited:?}; it may be stopped");
    BackendError::transient(BACKEND, Outcome::NotApplied, context, source)
}

/// The file holds nothing that we can go on from.
pub(crate) fn unusable(place: &Place, why: &'static str) -> BackendError {
    let context = format!("cannot use {place}: {}", place.remedy());
    BackendError::permanent(BACKEND, Outcome::NotApplied, context, why)
}
