//! Files that the checks read.

use std::fs;

use crate::step::{Done, Failure};
use crate::workspace;

/// A file of the workspace.
pub(crate) struct Source {
    /// Path from the root of the workspace.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    /// Returns true if the file is in this folder, or below it.
    pub(crate) fn is_in(&self, folder: &str) -> bool {
        self.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// Returns all files of the workspace whose name has one of these endings.
pub(crate) fn with_endings(endings: &[&str]) -> Done<Vec<Source>> {
    let paths = workspace::files()?.into_iter().map(|path| path.display().to_string());
    let chosen = paths.filter(|path| endings.iter().any(|ending| path.ends_with(ending)));
    chosen.map(read).collect()
}

/// Returns one file of the workspace.
pub(crate) fn read(path: impl Into<String>) -> Done<Source> {
    let path = path.into();
    match fs::read_to_string(workspace::root().join(&path)) {
        Ok(text) => Ok(Source { path, text }),
        Err(error) => Err(Failure::new(format!("cannot read {path}: {error}"))),
    }
}
