//! The list of all tests, by program, topic and case, so that a change shows each test that comes or goes.

use std::collections::BTreeSet;
use std::fs;

use crate::step::{Done, Failure};
use crate::tools::tool;
use crate::workspace::root;

const LIST: &str = "tests/cases.txt";

/// Fails if the list differs from the tests that there are.
pub(crate) fn compare() -> Done {
    let kept: BTreeSet<_> =
        fs::read_to_string(root().join(LIST))?.lines().map(str::to_owned).collect();
    let now = now()?;
    let changes: String = (now.difference(&kept).map(|case| format!("\n    + {case}")))
        .chain(kept.difference(&now).map(|case| format!("\n    - {case}")))
        .collect();
    match changes.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "{LIST}: the tests have changed: `cargo xtask cases` lists them anew{changes}"
        ))),
    }
}

/// Writes the list again.
pub(crate) fn accept() -> Done {
    let lines: String = now()?.into_iter().map(|case| case + "\n").collect();
    Ok(fs::write(root().join(LIST), lines)?)
}

/// Returns a line for each test: its program, and its path there.
fn now() -> Done<BTreeSet<String>> {
    let mut list =
        tool("cargo-nextest nextest list --workspace --all-features --message-format oneline");
    let listed = list.current_dir(root()).output()?;
    match listed.status.success() {
        true => Ok(String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect()),
        false => Err(Failure::new(String::from_utf8_lossy(&listed.stderr))),
    }
}
