//! All tests, and all examples.

use std::env;
use std::thread::available_parallelism;

use crate::step::{self, Done};
use crate::{examples, setup, workspace};

/// How many tests of a program run side by side, where the environment does not say.
const THREADS: &str = "RUST_TEST_THREADS";

/// Most tests wait for most of their time, so a test for each core would leave the cores idle.
const TESTS_PER_CORE: usize = 3;

/// The servers that tests share have room for so many.
const MOST: usize = 16;

/// Sets up, then runs all tests with these arguments more, and without any all examples.
pub(crate) fn run(args: &[String]) -> Done {
    setup::run()?;
    let mut tests = workspace::cargo("test --workspace --all-features");
    if env::var_os(THREADS).is_none() {
        tests.env(THREADS, threads().to_string());
    }
    step::run(tests.args(args))?;
    match args {
        [] => examples::run(),
        _ => Ok(()),
    }
}

fn threads() -> usize {
    let cores = available_parallelism().map_or(1, usize::from);
    (TESTS_PER_CORE * cores).min(MOST)
}
