//! Plan of a run.

use std::env;
use std::fmt::Debug;
use std::str::FromStr;
use std::time::Duration;

/// Plan of a run. The same seed makes the same choices; their effects depend on the machine too.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed of all choices.
    pub seed: u64,
    /// Time for which workers work and faults strike.
    pub span: Duration,
    /// The name of the only fault; `None` for all faults, one after the other.
    pub fault: Option<String>,
    /// Number of workers.
    pub workers: usize,
    /// True if S3 must hold under every fault, even one that makes the store forget: for control runs.
    pub excuses_nothing: bool,
    /// True if workers only increment registers, and continue after a reported loss: for control runs. Else they
    /// acquire locks in all ways, and some continue.
    pub is_reckless: bool,
}

impl Plan {
    /// Returns a plan for three workers and all faults.
    pub fn new(seed: u64, span: Duration) -> Self {
        let (fault, excuses_nothing, is_reckless) = (None, false, false);
        Self { seed, span, fault, workers: 3, excuses_nothing, is_reckless }
    }

    /// Returns the plan of the environment: `LEASEHOLD_CHAOS_SEED`, `LEASEHOLD_CHAOS_SECONDS`,
    /// `LEASEHOLD_CHAOS_FAULT` and `LEASEHOLD_CHAOS_WORKERS`. The default is seven seconds of three workers with seed
    /// 1.
    ///
    /// # Panics
    /// If one of them is no number.
    pub fn of_environment() -> Self {
        let seed = number("SEED").unwrap_or(1);
        let plan = Self::new(seed, Duration::from_secs(number("SECONDS").unwrap_or(7)));
        Self { fault: said("FAULT"), workers: number("WORKERS").unwrap_or(plan.workers), ..plan }
    }

    /// Returns true if a fault may strike.
    pub(super) fn has(&self, fault: &str) -> bool {
        self.fault.as_ref().is_none_or(|only| only == fault)
    }
}

fn said(name: &str) -> Option<String> {
    env::var(format!("LEASEHOLD_CHAOS_{name}")).ok().filter(|said| !said.is_empty())
}

fn number<T: FromStr<Err: Debug>>(name: &str) -> Option<T> {
    said(name).map(|said| said.parse().unwrap_or_else(|_| panic!("{name} is no number: {said}")))
}
