//! Faults of files, in the words of the contract.

use std::fmt;
use std::io::{self, ErrorKind};
use std::time::Duration;

use lock_core::{BackendError, InvalidInput, Outcome};

use crate::state_file::{StateFile, StateOf};

/// The backend's name, as errors and metrics show it.
pub(crate) const BACKEND: &str = "file";

/// The operating system refused.
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

/// Returns true if somebody must do something before a retry can help. A full disk or a process that is out of file
/// descriptors may pass by itself.
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

/// Another process is inside its critical section for longer than a process needs that runs.
pub(crate) fn stuck(file: &StateFile, waited: Duration) -> BackendError {
    let context = format!("cannot lock {file}");
    let source = format!(
        "another process has kept it locked for {waited:?}; it may be stopped, or a tool such as flock"
    );
    BackendError::transient(BACKEND, Outcome::NotApplied, context, source)
}

/// Returns the error of a file with unusable content.
pub(crate) fn unusable(file: &StateFile, why: &'static str) -> BackendError {
    if let StateOf::Lock(_) = file.of {
        // C49: what is there is no lock.
        return BackendError::not_a_lock(BACKEND, format!("{file} ({why}: {})", file.remedy()));
    }
    let context = format!("cannot use {file}: {}", file.remedy());
    BackendError::permanent(BACKEND, Outcome::NotApplied, context, why)
}

/// The file holds a whole value, which is not that of a lock, as far as this version knows.
pub(crate) fn no_record(file: &StateFile) -> BackendError {
    unusable(file, "it is not the record of a lock")
}

/// The wall clock, or a token before, has come to the end of all tokens.
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
