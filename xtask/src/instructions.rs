//! Counts the client's instructions of an acquire and a release. Unlike times, the counts are the same on a busy
//! machine, so they show a slower commit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lock_testkit::RedisServer;
use tokio::runtime::Builder;

use crate::step::{self, Done, Failure};
use crate::workspace::{cargo, root, target};

/// File of the accepted counts, relative to the workspace. Each line has a store and its instructions per cycle.
const ACCEPTED: &str = "benches/instructions/accepted.txt";

/// A count may be up to this many times the accepted one.
const BOUND: f64 = 1.1;

/// Cycles of two runs. The difference of their counts leaves out the start of the program.
const CYCLES: [u64; 2] = [500, 1_500];

/// The processor that callgrind simulates has no vDSO; without this flag rustix reads the time through it.
const FLAGS: &str = r#"build.rustflags=["--cfg","rustix_use_libc"]"#;

/// Counts, and compares with the accepted counts; or accepts the new counts.
pub(crate) fn run(accept: bool) -> Done {
    let program = build()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let redis = runtime.block_on(RedisServer::start());
    let mut counted = Vec::new();
    for (store, url) in [("memory", "memory:".to_owned()), ("redis", redis.url())] {
        let instructions = of_a_cycle(&program, &url)?;
        println!("{store} {instructions}");
        counted.push((store, instructions));
    }
    match accept {
        true => Ok(fs::write(root().join(ACCEPTED), written(&counted))?),
        false => compare(&counted, &fs::read_to_string(root().join(ACCEPTED))?),
    }
}

/// Builds the program to count, in its own folder, since its flags differ.
fn build() -> Done<PathBuf> {
    let folder = target().join("instructions");
    let mut build = cargo("build --release --quiet --package lock-instructions --config");
    step::run(build.arg(FLAGS).arg("--target-dir").arg(&folder))?;
    Ok(folder.join("release/lock-instructions"))
}

fn of_a_cycle(program: &Path, url: &str) -> Done<u64> {
    let [few, many] = CYCLES;
    let more = of(program, url, many)?.saturating_sub(of(program, url, few)?);
    Ok(more / (many - few))
}

/// Returns the instructions of the whole program.
fn of(program: &Path, url: &str, cycles: u64) -> Done<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    let output = valgrind.arg(url).arg(cycles.to_string()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let count = said.lines().find_map(|line| line.split_once("Collected : "));
    let count = count.and_then(|(_, count)| count.trim().parse().ok());
    count
        .filter(|_| output.status.success())
        .ok_or_else(|| Failure::new(format!("valgrind: {said}")))
}

fn written(counted: &[(&str, u64)]) -> String {
    counted.iter().map(|(store, instructions)| format!("{store} {instructions}\n")).collect()
}

fn compare(counted: &[(&str, u64)], accepted: &str) -> Done {
    for (store, instructions) in counted {
        let accepted = accepted.lines().filter_map(|line| line.split_once(' '));
        let accepted = accepted.into_iter().find(|(name, _)| name == store);
        let accepted: u64 = accepted.and_then(|(_, count)| count.parse().ok()).unwrap_or(0);
        if *instructions as f64 > accepted as f64 * BOUND {
            return Err(Failure::new(format!(
                "an acquire and a release on {store} take {instructions} instructions, and {accepted} are \
                 accepted: find out why, or accept them by `cargo xtask instructions --accept`"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_more_is_borne_and_no_more() {
        let accepted = "memory 1000\nredis 2000\n";
        assert!(compare(&[("memory", 1_100), ("redis", 1)], accepted).is_ok());
        assert!(compare(&[("memory", 1_000), ("redis", 2_201)], accepted).is_err());
        assert!(compare(&[("etcd", 1)], accepted).is_err());
    }

    #[test]
    fn what_is_accepted_is_read_as_it_is_written() {
        let counted = [("memory", 1_000), ("redis", 2_000)];
        assert!(compare(&counted, &written(&counted)).is_ok());
    }
}
