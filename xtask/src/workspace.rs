//! Paths of the workspace.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{Done, Failure, command};

/// Root of the workspace from which this program was built.
pub(crate) fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// Cargo's build folder.
pub(crate) fn target() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Creates a cargo command in the workspace, from a line of words.
pub(crate) fn cargo(line: &str) -> Command {
    let mut cargo = command(&format!("cargo {line}"));
    cargo.current_dir(root());
    cargo
}

/// Returns the files of the workspace that git knows, including changed and new ones, sorted.
pub(crate) fn files() -> Done<Vec<PathBuf>> {
    let mut list = command("git ls-files -z --cached --others --exclude-standard");
    let listed = list.current_dir(root()).output()?;
    if !listed.status.success() {
        let said = String::from_utf8_lossy(&listed.stderr);
        return Err(Failure::new(format!("git cannot list the workspace: {said}")));
    }
    let names = listed.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let files = names.map(|name| PathBuf::from(OsStr::from_bytes(name)));
    // Git still lists files that were removed without a commit.
    let mut files: Vec<_> = files.filter(|file| root().join(file).is_file()).collect();
    files.sort();
    Ok(files)
}
