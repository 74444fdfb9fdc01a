//! Errors of files as errors of the contract.

use std::fmt;
use std::io::{self, ErrorKind};
use std::time::Duration;

use lock_core::{BackendError, InvalidInput, Outcome};

use crate::state_file::{StateFile, StateOf};

/// The backend's name, as errors and metrics show it.
pub(crate) const BACKEND: &str = "file";

/// The error of a refusal by the operating system.
pub(crate) fn refused(
    doing: &str,
    what: &dyn fmt::Display,
    outcome: Outcome,
    source: io::Error,
) -> BackendError {
    let context = format!("cannot {doing} {what}");
    if is_lasting(source.kind()) {
        BackendError::permanent(BACKEND, outcome, context, source)
    } else {
        BackendError::transient(BACKEND, outcome, context, source)
    }
}

/// Returns true if a retry cannot help before somebody acts. A full disk, or a process without free file descriptors,
/// may recover by itself.
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

/// The error of a file that another process locks for longer than a running process can.
pub(crate) fn stuck(file: &StateFile, waited: Duration) -> BackendError {
    let context = format!("cannot lock {file}");
    let source = format!(
        "another process has kept it locked for {waited:?}; it may be stopped, or a tool such as flock"
    );
    BackendError::transient(BACKEND, Outcome::NotApplied, context, source)
}

/// The error of a listing that had no time for all files.
pub(crate) fn too_many_files(limit: Duration) -> BackendError {
    let (context, source) =
        (format!("the listing stopped after {limit:?}"), "there are too many files");
    BackendError::transient(BACKEND, Outcome::NotApplied, context, source)
}

/// Returns the error of a file with unusable content.
pub(crate) fn unusable(file: &StateFile, why: &'static str) -> BackendError {
    if let StateOf::Lock(_) = file.of {
        // C49: the content is no lock.
        return BackendError::not_a_lock(BACKEND, format!("{file} ({why}: {})", file.remedy()));
    }
    let context = format!("cannot use {file}: {}", file.remedy());
    BackendError::permanent(BACKEND, Outcome::NotApplied, context, why)
}

/// The error of a file with a complete value that is no lock for this version.
pub(crate) fn no_record(file: &StateFile) -> BackendError {
    unusable(file, "it is not the record of a lock")
}

/// The error of a wall clock, or of an earlier token, beyond the last token.
pub(crate) fn out_of_tokens(error: InvalidInput) -> BackendError {
    BackendError::permanent(BACKEND, Outcome::NotApplied, "out of tokens", error)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn c15_what_may_pass_by_itself_is_told_from_what_somebody_must_mend() {
        let is_transient = |errno: Errno| {
            refused("write", &"it", Outcome::NotApplied, errno.into()).is_transient()
        };
        for passes in
            [Errno::NOSPC, Errno::DQUOT, Errno::MFILE, Errno::NFILE, Errno::NOLCK, Errno::IO]
        {
            assert!(is_transient(passes), "{passes}");
        }
        let lasts = [
            Errno::ACCESS,
            Errno::PERM,
            Errno::ROFS,
            Errno::NAMETOOLONG,
            Errno::NOTSUP,
            Errno::NOSYS,
        ];
        for lasts in lasts {
            assert!(!is_transient(lasts), "{lasts}");
        }
    }
}
