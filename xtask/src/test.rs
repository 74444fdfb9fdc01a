//! All tests, and all examples.

use crate::step::{self, Done};
use crate::{examples, setup, workspace};

/// Sets up, then runs all tests with these arguments more, and without any all examples.
pub(crate) fn run(args: &[String]) -> Done {
    setup::run()?;
    step::run(workspace::cargo("test --workspace --all-features").args(args))?;
    match args {
        [] => examples::run(),
        _ => Ok(()),
    }
}
