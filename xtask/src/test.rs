//! All tests, and all examples.

use std::process::Command;
use std::thread::{self, available_parallelism};

use crate::step::{self, Done, Failure};
use crate::tools::{self, tool};
use crate::{cases, examples, setup, workspace};

/// Arguments of each runner, the same so that nothing is built twice.
const ALL: &str = "--workspace --all-features --no-fail-fast";

/// Programs whose tests share a server or its first files. They run under `cargo test`: a runner with a process for
/// each test would make them for each one. That takes eight times as long on Postgres, and fills the disk with folders
/// on etcd.
///
/// Stores on a disk and then stores in memory are tested one after the other, beside all that `cargo nextest` runs. When
/// nextest is done, the others follow, beside the docs and the examples. More at once would overload two busy cores.
const ON_DISK: &str = "--test etcd --test postgres";
const IN_MEMORY: &str = "--test memcached --test processes --test redis --test redis_quorum";
const OTHERS: &str = "--test shell --test redis_topologies --test zookeeper";

/// Tests of a program that run side by side, per core: most tests wait for most of their time.
const TESTS_PER_CORE: usize = 4;

/// Sets up, then runs all tests, those in the docs, and all examples. With arguments it only runs `cargo test`
/// with them. One failure does not hide another.
pub(crate) fn run(args: &[String]) -> Done {
    setup::run()?;
    if !args.is_empty() {
        return step::run(cargo_test("").args(args));
    }
    all()
}

/// Runs several programs side by side if `cargo nextest` is installed or can be; otherwise one after the other by
/// `cargo test`.
fn all() -> Done {
    let has_nextest =
        tools::install().is_ok() || step::succeeds(&mut tool("cargo-nextest nextest --version"));
    if !has_nextest {
        return Failure::all_of([step::run(&mut cargo_test("")), examples::run()]);
    }
    step::run(&mut cargo_test("--no-run"))?;
    thread::scope(|scope| {
        let row = |programs| {
            let mut tests = cargo_test(programs);
            tests.env("RUST_TEST_THREADS", side_by_side());
            step::run_and_tell_at_the_end(&mut tests)
        };
        let stores = scope.spawn(move || Failure::all_of([ON_DISK, IN_MEMORY].map(row)));
        let nextest = step::run(&mut nextest());
        let others = scope.spawn(move || row(OTHERS));
        let done = [nextest, cases::compare(), docs(), examples::run()];
        let rows = [stores, others]
            .map(|row| row.join().unwrap_or_else(|_| Err(Failure::new("a runner panicked"))));
        Failure::all_of(done.into_iter().chain(rows))
    })
}

fn docs() -> Done {
    step::run(&mut cargo_test("--doc"))
}

fn nextest() -> Command {
    let shared = [ON_DISK, IN_MEMORY, OTHERS].join(" ");
    let shared = shared.split_whitespace().filter(|word| *word != "--test");
    let others: Vec<_> = shared.map(|name| format!("not binary(={name})")).collect();
    let mut nextest = tool(&format!("cargo-nextest nextest run {ALL} --test-threads"));
    nextest.arg(side_by_side()).arg("-E").arg(others.join(" & "));
    nextest
}

fn cargo_test(what: &str) -> Command {
    workspace::cargo(&format!("test {ALL} {what}"))
}

fn side_by_side() -> String {
    (TESTS_PER_CORE * available_parallelism().map_or(1, usize::from)).to_string()
}
