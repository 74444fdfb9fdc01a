//! Programs that must be installed.

use std::env;

/// Panics with the package to install if `program` is not on the PATH.
pub fn require(program: &str, debian: &str, homebrew: &str) {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).any(|folder| folder.join(program).is_file());
    assert!(
        found,
        "{program} is not installed: `apt-get install {debian}` / `brew install {homebrew}`, \
         or run `cargo xtask test`, which installs it"
    );
}
