//! Plays simulated worlds of the engine in virtual time, one seed each.

use crate::step::{self, Done};
use crate::workspace;

/// Plays worlds with these arguments.
pub(crate) fn run(args: &[String]) -> Done {
    step::run(workspace::cargo("run --release --quiet --package lock-proof --").args(args))
}
