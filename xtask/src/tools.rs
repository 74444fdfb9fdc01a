//! External tools: linters, and the test runner.

use std::fs;
use std::process::Command;

use crate::step::{self, Done, command, program};
use crate::workspace::{root, target};

/// Commands that print the tools' versions.
const TOOLS: &[&str] = &[
    "cargo-deny --version",
    "cargo-nextest nextest --version",
    "cargo-shear --version",
    "lychee --version",
    "taplo --version",
    "typos --version",
];

/// Installs the tools of `xtask/tools.txt` below the build folder, unless they are there. If that is impossible,
/// all must be on the path.
pub(crate) fn install() -> Done {
    let (list, folder) = (root().join("xtask/tools.txt"), target().join("tools"));
    let installed = folder.join("tools.txt");
    if fs::read(&installed).is_ok_and(|old| fs::read(&list).is_ok_and(|new| new == old)) {
        return Ok(());
    }
    let mut pip = command(
        "python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
         --require-hashes --no-deps --upgrade --target",
    );
    match step::run(pip.arg(&folder).arg("-r").arg(&list)) {
        Ok(()) => Ok(fs::copy(list, installed).map(drop)?),
        Err(_) if TOOLS.iter().all(|line| step::succeeds(&mut tool(line))) => Ok(()),
        failed => failed,
    }
}

/// Creates a command of a tool from a line of words. A tool that is not installed below the build folder is taken
/// from the path.
pub(crate) fn tool(line: &str) -> Command {
    let (name, words) = line.split_once(' ').unwrap_or((line, ""));
    let own = target().join("tools/bin").join(name);
    let mut tool = program(if own.is_file() { own } else { name.into() });
    tool.args(words.split_whitespace()).current_dir(root());
    tool
}
