//! Inputs that fail at present, one subcommand each. The README lists them.
//!
//! Each starts its own server, and prints the right outcome and the seen one. It exits with 1 while the fault stands,
//! with 0 once it is gone, and with 2 if the machine lacks something for it.

#![allow(clippy::expect_used, clippy::panic)]

mod idle_waiters;
mod many_locks;
mod verdict;
mod wrong_clock;

use std::env;
use std::process::ExitCode;

use crate::verdict::Verdict;

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let size = |default: usize| match args.get(1).map(|size| size.parse()) {
        None => default,
        Some(size) => size.expect("the size is a number"),
    };
    let verdict = match args.first().map_or("", String::as_str) {
        "wrong-clock" => wrong_clock::run().await,
        "idle-waiters" => idle_waiters::run(size(20)).await,
        "many-locks" => many_locks::run(size(10_000)).await,
        // The role of a process that another starts.
        "acquire-once" => return verdict::acquire_once(&args[1], &args[2]).await,
        other => Verdict::impossible(format!("{other:?} is no input: the README lists them")),
    };
    verdict.print()
}
