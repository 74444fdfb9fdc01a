//! Runs the parsers on random input.

use clap::Args;

use crate::step::{self, Done};
use crate::workspace;

/// Packages that have targets.
const PACKAGES: &str = "-p lock-cli -p lock-core -p lock-etcd -p lock-file -p lock-postgres -p lock-redis -p lock-zookeeper";

/// Arguments of a run.
#[derive(Args)]
pub(crate) struct Fuzz {
    /// A part of the targets' names, such as `lease` or `holders::tests::fuzz_holders`; all of them if it is left out.
    #[arg(default_value = "fuzz_")]
    target: String,
    /// Seconds for each target.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// Runs the tests called `fuzz_…` for the given time.
pub(crate) fn run(fuzz: &Fuzz) -> Done {
    let mut tests =
        workspace::cargo(&format!("test {PACKAGES} --all-features --lib --no-fail-fast --"));
    tests.arg(&fuzz.target).arg("--nocapture");
    tests.env("LEASEHOLD_FUZZ_SECONDS", fuzz.seconds.to_string());
    step::run(&mut tests)
}
