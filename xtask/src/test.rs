//! All tests, and all examples.

use std::process::Command;
use std::thread::{self, available_parallelism};

use crate::step::{self, Done, Failure};
use crate::tools::{self, tool};
use crate::{examples, setup, workspace};

/// Arguments of each runner, the same so that nothing is built twice.
const ALL: &str = "--workspace --all-features --no-fail-fast";

/// Programs whose tests share a server. They run under `cargo test`: a runner with a process for each test would
/// start the server for each one. That takes eight times as long on Postgres, and fills the disk with folders on
/// etcd.
///
/// Programs that wait for a disk run one after the other, beside all that `cargo nextest` runs. The others follow in
/// two rows, beside the docs and the examples. More at once would overload two busy cores.
const ON_DISK: &str = "--test etcd --test postgres";
const IN_MEMORY: &str = "--test memcached --test processes --test redis --test redis_quorum";
const OF_SEVERAL_SERVERS: &str = "--test redis_topologies --test zookeeper";

/// Tests of a program that run side by side, per core: most tests wait for most of their time, and those of [`ON_DISK`]
/// for even more of it.
const TESTS_PER_CORE: usize = 3;
const TESTS_ON_DISK_PER_CORE: usize = 4;

/// Sets up, then runs all tests, those in the docs, and all examples. With arguments it only runs `cargo test`
/// with them. One failure does not hide another.
pub(crate) fn run(args: &[String]) -> Done {
    setup::run()?;
    if !args.is_empty() {
        return step::run(cargo_test("").args(args));
    }
    Failure::all_of(all()?)
}

/// Runs two programs side by side if `cargo nextest` is installed or can be; otherwise one after the other by
/// `cargo test`.
fn all() -> Done<Vec<Done>> {
    let has_nextest =
        tools::install().is_ok() || step::succeeds(&mut tool("cargo-nextest nextest --version"));
    if !has_nextest {
        return Ok(vec![step::run(&mut cargo_test("")), examples::run()]);
    }
    step::run(&mut cargo_test("--no-run"))?;
    thread::scope(|scope| {
        let beside = |programs, per_core| {
            let mut tests = cargo_test(programs);
            tests.env("RUST_TEST_THREADS", side_by_side(per_core));
            scope.spawn(move || step::run_and_tell_at_the_end(&mut tests))
        };
        let on_disk = beside(ON_DISK, TESTS_ON_DISK_PER_CORE);
        let others = step::run(&mut nextest());
        let rows = [IN_MEMORY, OF_SEVERAL_SERVERS].map(|row| beside(row, TESTS_PER_CORE));
        let rows = std::iter::once(on_disk).chain(rows);
        let done = [others, docs(), examples::run()];
        let rows = rows
            .map(|runner| runner.join().unwrap_or_else(|_| Err(Failure::new("a runner panicked"))));
        Ok(done.into_iter().chain(rows).collect())
    })
}

fn docs() -> Done {
    step::run(&mut cargo_test("--doc"))
}

fn nextest() -> Command {
    let shared = [ON_DISK, IN_MEMORY, OF_SEVERAL_SERVERS].join(" ");
    let shared = shared.split_whitespace().filter(|word| *word != "--test");
    let others: Vec<_> = shared.map(|name| format!("not binary(={name})")).collect();
    let mut nextest = tool(&format!("cargo-nextest nextest run {ALL} --test-threads"));
    nextest.arg(side_by_side(TESTS_PER_CORE)).arg("-E").arg(others.join(" & "));
    nextest
}

fn cargo_test(what: &str) -> Command {
    let mut tests = workspace::cargo(&format!("test {ALL} {what}"));
    tests.env("RUST_TEST_THREADS", side_by_side(TESTS_PER_CORE));
    tests
}

fn side_by_side(per_core: usize) -> String {
    (per_core * available_parallelism().map_or(1, usize::from)).to_string()
}
