//! Whether a path is fit for locks.

use std::path::{Path, PathBuf};

use lock_core::{LockError, Outcome};

use crate::{fault, platform};

/// Refuses a path whose file locks another machine would not see, or not at once.
pub(crate) fn refuse_network_mount(path: &Path) -> Result<(), LockError> {
    let mount = platform::network_mount(path);
    match mount.map_err(|error| unusable("examine", path, error))? {
        None => Ok(()),
        Some(kind) => Err(LockError::Config {
            message: format!(
                "{} is on a network mount ({kind}): choose a directory on a local disk, \
                 or a backend with a server",
                path.display()
            ),
        }),
    }
}

/// The path that means the same file wherever the process goes.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, LockError> {
    std::path::absolute(path).map_err(|error| unusable("find", path, error))
}

/// A path that cannot be used, at least not now.
pub(crate) fn unusable(doing: &str, path: &Path, error: std::io::Error) -> LockError {
    let what = format!("{}, which this user has to be able to write", path.display());
    let source = fault::refused(doing, &what, Outcome::NotApplied, error);
    LockError::Backend { operation: "open the locks", name: None, source }
}
