//! All tests, and all examples.

use std::iter;
use std::process::Command;
use std::sync::Mutex;
use std::thread::{self, available_parallelism};

use crate::step::{self, Done, Failure};
use crate::tools::{self, tool};
use crate::{cases, examples, setup, workspace};

/// Arguments of each runner, the same so that nothing is built twice.
const ALL: &str = "--workspace --all-features --no-fail-fast";

/// All runs, in the order in which they start: the longest first.
const RUNS: &[Run] = &[
    Run::Other(nextest),
    Run::Sharing("postgres"),
    Run::Sharing("etcd"),
    Run::Sharing("zookeeper"),
    Run::Sharing("memcached"),
    Run::Sharing("redis_topologies"),
    Run::Sharing("redis"),
    Run::Sharing("shell"),
    Run::Sharing("redis_quorum"),
    Run::Sharing("processes"),
    Run::Other(docs),
    Run::Other(examples::run),
    Run::Other(cases::compare),
];

/// A part of all tests.
enum Run {
    /// A program whose tests share a server or its first files. It runs under `cargo test`: a runner with a process for
    /// each test would make them for each one. That takes eight times as long on Postgres, and fills the disk with folders
    /// on etcd.
    Sharing(&'static str),
    Other(fn() -> Done),
}

/// Runs side by side besides one for each core: most tests wait for most of their time.
const MORE_RUNS: usize = 1;

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
    let runs = Mutex::new(RUNS.iter());
    let next = || runs.lock().ok()?.next();
    thread::scope(|scope| {
        let row = || Failure::all_of(iter::from_fn(next).map(Run::run));
        let rows: Vec<_> = (0..cores() + MORE_RUNS).map(|_| scope.spawn(row)).collect();
        let panicked = |_| Err(Failure::new("a runner panicked"));
        Failure::all_of(rows.into_iter().map(|row| row.join().unwrap_or_else(panicked)))
    })
}

impl Run {
    fn run(&self) -> Done {
        match self {
            Self::Other(run) => run(),
            Self::Sharing(name) => {
                let mut tests = cargo_test(&format!("--test {name}"));
                step::run_and_tell_at_the_end(tests.env("RUST_TEST_THREADS", tests_at_once()))
            }
        }
    }
}

fn docs() -> Done {
    step::run(&mut cargo_test("--doc"))
}

fn nextest() -> Done {
    let mut nextest = tool(&format!("cargo-nextest nextest run {ALL} --test-threads"));
    let sharing = RUNS.iter().filter_map(|run| match run {
        Run::Sharing(name) => Some(format!("not binary(={name})")),
        Run::Other(_) => None,
    });
    nextest.arg(tests_at_once()).arg("-E").arg(sharing.collect::<Vec<_>>().join(" & "));
    step::run(&mut nextest)
}

fn cargo_test(what: &str) -> Command {
    workspace::cargo(&format!("test {ALL} {what}"))
}

fn tests_at_once() -> String {
    (TESTS_PER_CORE * cores()).to_string()
}

fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}
