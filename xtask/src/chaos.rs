//! Histories on real servers under random faults.

use std::path::{self, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;

use crate::step::{self, Done};
use crate::workspace;

/// Number of workers in a run, each a client of its own. A soak has the default of the harness, whose bounds fit it.
const WORKERS: usize = 5;

/// Arguments of a run or a soak.
#[derive(Args)]
pub(crate) struct Chaos {
    /// The store: memory, files, redis, etcd, postgres, zookeeper or `zookeeper_of_three`; all of them, one after the
    /// other, if it is left out.
    #[arg(long)]
    backend: Option<String>,
    /// The only fault that strikes, such as `worker-paused`, `black-hole` or `server-killed`.
    #[arg(long)]
    fault: Option<String>,
    /// Seed of all choices; default the time of day. It is printed.
    #[arg(long)]
    seed: Option<u64>,
    /// For how long each store is struck; default 5, and 30 for a soak.
    #[arg(long)]
    minutes: Option<u64>,
    /// Keeps the history of each run in this folder, as JSON lines, compressed.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Runs nothing: judges the kept histories of this folder again, with the project's checker and with porcupine.
    #[arg(long)]
    check: Option<PathBuf>,
}

/// Runs the tests of `tests/chaos` for the given time. A soak also counts the resources in use, in all stores but
/// memory.
pub(crate) fn run(chaos: &Chaos, soaks: bool) -> Done {
    if let Some(folder) = &chaos.check {
        return check(folder);
    }
    let minutes = chaos.minutes.unwrap_or(if soaks { 30 } else { 5 });
    let mut tests = workspace::cargo("test --workspace --all-features --test chaos --");
    tests.arg(format!("p1_histories_on_{}", chaos.backend.as_deref().unwrap_or_default()));
    tests.args(["--nocapture", "--test-threads=1"]);
    tests.env("LEASEHOLD_CHAOS_SOAKS", soaks.to_string());
    tests.env("LEASEHOLD_CHAOS_SECONDS", (60 * minutes).to_string());
    tests.env("LEASEHOLD_CHAOS_FAULT", chaos.fault.as_deref().unwrap_or_default());
    let seed = chaos.seed.unwrap_or_else(|| {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::from(time.subsec_micros())
    });
    if !soaks {
        tests.env("LEASEHOLD_CHAOS_WORKERS", WORKERS.to_string());
    }
    tests.env("LEASEHOLD_CHAOS_SEED", seed.to_string());
    if let Some(folder) = &chaos.keep {
        tests.env("LEASEHOLD_CHAOS_KEEP", path::absolute(folder)?);
    }
    step::run(&mut tests)
}

fn check(folder: &Path) -> Done {
    let mut tests =
        workspace::cargo("test -p lock-testkit --all-features --test kept -- --nocapture");
    step::run(tests.env("LEASEHOLD_CHAOS_CHECK", path::absolute(folder)?))
}
