//! Carries out the README's commands: installs the needs of the tests, tests, lints, measures, and proves that the tests
//! notice faults.

mod cases;
mod chaos;
mod dist;
mod examples;
mod fuzz;
mod instructions;
mod lint;
mod mutants;
mod package;
mod platforms;
mod setup;
mod step;
mod test;
mod tools;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

use crate::step::Done;

/// Leasehold's tasks. Each prints the commands it runs, and stops at the first that fails.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Install the servers, libraries and tools that are missing for the tests and for `lint`.
    Setup,
    /// Set up, then run all tests and all examples.
    Test {
        /// Handed to `cargo test` as they are; with any, no more than that is run.
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Run all examples, and those that take a URL on Redis too; see each succeed.
    Examples,
    /// Check format, spelling, links, dependencies, clauses, lints with every set of features, and docs.
    Lint,
    /// Measure the project beside its peers, and beside the least that each store could do: `--help` tells how.
    #[command(disable_help_flag = true)]
    Bench {
        /// Handed to the bench as they are.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// List all tests anew in `tests/cases.txt`, where `test` compares them.
    Cases,
    /// Let workers use locks on real servers under random faults, and judge all that they saw.
    Chaos(chaos::Chaos),
    /// Let workers use locks for long under random faults, and see that memory, descriptors, tasks and records do not grow.
    Soak(chaos::Chaos),
    /// Fill a store with a million names and records and ten thousand waiters, and measure the worst delay of a foreign
    /// client beside each verb: `etcd`, `file`, `postgres`, `redis` or `zookeeper`; `--help` tells more.
    #[command(disable_help_flag = true)]
    Crowd {
        /// Handed to the program as they are.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Hand random input to the parsers of names, URLs, leases, records, replies and arguments, for a minute each.
    Fuzz(fuzz::Fuzz),
    /// Play simulated worlds of the engine, one seed each: `--seconds N`, `--worlds N`, `--seed S`; `--help` tells more.
    #[command(disable_help_flag = true)]
    Worlds {
        /// Handed to the program as they are.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Count the instructions of an acquire and a release, and fail if they are a tenth more than accepted.
    Instructions {
        /// Accept what is counted.
        #[arg(long)]
        accept: bool,
    },
    /// List the public items of what is published anew, in `docs/notes/public_items`, where `lint` compares them.
    PublicItems,
    /// Pack what is published, and build a service from the packages alone.
    Package,
    /// Build what people run into `target/dist`: a static binary, an archive, a Debian package, and their sums.
    Dist,
    /// Check the types of the library on Windows and macOS, and of the command on macOS.
    Platforms,
    /// Prove that named tests fail when the code is broken in named ways.
    Mutants {
        /// Only the patches of `mutants/` whose file's name contains one of these.
        names: Vec<String>,
    },
}

fn main() -> ExitCode {
    let done = match Task::parse() {
        Task::Setup => setup::run().and_then(|()| tools::install()),
        Task::Test { args } => test::run(&args),
        Task::Examples => examples::run(),
        Task::Bench { args } => run_optimized("lock-bench", &args),
        Task::Cases => cases::accept(),
        Task::Chaos(chaos) => chaos::run(&chaos, false),
        Task::Soak(chaos) => chaos::run(&chaos, true),
        Task::Crowd { mut args } => {
            args.insert(0, "crowd".to_owned());
            run_optimized("lock-bench", &args)
        }
        Task::Fuzz(fuzz) => fuzz::run(&fuzz),
        Task::Worlds { args } => run_optimized("lock-proof", &args),
        Task::Instructions { accept } => instructions::run(accept),
        Task::Lint => lint::run(),
        Task::PublicItems => lint::public_items::accept(),
        Task::Package => package::run(),
        Task::Dist => dist::run(),
        Task::Platforms => platforms::run(),
        Task::Mutants { names } => mutants::run(&names),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Builds a program in release mode, and runs it with these arguments.
fn run_optimized(package: &str, args: &[String]) -> Done {
    let line = format!("run --release --quiet --package {package} --bin {package} --");
    step::run(workspace::cargo(&line).args(args))
}
