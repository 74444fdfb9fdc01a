//! All tests.

use crate::step::{self, Done};
use crate::{setup, workspace};

/// Sets up, then runs all tests with these arguments more.
pub(crate) fn run(args: &[String]) -> Done {
    setup::run()?;
    step::run(workspace::cargo("test --workspace --all-features").args(args))
}
