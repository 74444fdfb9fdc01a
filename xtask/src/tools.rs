//! The tools of others: linters, and the runner of the tests.

use std::fs;
use std::process::Command;

use crate::step::{self, Done, command};
use crate::workspace::{root, target};

/// Commands by which the tools tell their versions.
const TOOLS: &[&str] = &[
    "cargo-deny --version",
    "cargo-nextest nextest --version",
    "cargo-shear --version",
    "lychee --version",
    "taplo --version",
    "typos --version",
];

/// Installs what `xtask/tools.txt` lists below the build folder, unless it is there. Where that cannot be, all must be on
/// the path.
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

/// A command of one of the tools, from a line of words. A tool that was not installed here is taken from the path.
pub(crate) fn tool(line: &str) -> Command {
    let (name, words) = line.split_once(' ').unwrap_or((line, ""));
    let own = target().join("tools/bin").join(name);
    let mut tool = Command::new(if own.is_file() { own } else { name.into() });
    tool.args(words.split_whitespace()).current_dir(root());
    tool
}
