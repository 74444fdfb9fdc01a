//! Histories on real servers under random faults.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;

use crate::step::{self, Done};
use crate::workspace;

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
}

/// Runs the tests of `tests/chaos` for the given time. A soak also counts the resources in use, in all stores but
/// memory.
pub(crate) fn run(chaos: &Chaos, soaks: bool) -> Done {
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
    tests.env("LEASEHOLD_CHAOS_SEED", seed.to_string());
    step::run(&mut tests)
}
