//! Where things are.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::command;

/// The workspace this program was built from.
pub(crate) fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// A cargo command in the workspace, from a line of words.
pub(crate) fn cargo(line: &str) -> Command {
    let mut cargo = command(&format!("cargo {line}"));
    cargo.current_dir(root());
    cargo
}
