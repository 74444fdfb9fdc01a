//! Measures the project beside its peers.

use crate::step::{self, Done};
use crate::workspace;

/// Builds the bench in release mode, and runs it with these arguments.
pub(crate) fn run(args: &[String]) -> Done {
    let mut bench = workspace::cargo("run --release --quiet --package lock-bench --");
    step::run(bench.args(args))
}
