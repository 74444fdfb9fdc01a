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
    /// For how long workers work and faults strike.
    pub span: Duration,
    /// The only fault that strikes, by its name; all, one after the other, if there is none.
    pub fault: Option<String>,
    /// Number of workers.
    pub workers: usize,
    /// True if S3 must hold under every fault, also where the store is made to forget: for controls.
    pub excuses_nothing: bool,
    /// True if workers only increment registers, and go on although they were told of a loss, for controls. Else they
    /// take locks in all ways, and some go on.
    pub is_reckless: bool,
}

impl Plan {
    /// Three workers for so long, under all faults.
    pub fn new(seed: u64, span: Duration) -> Self {
        let (fault, excuses_nothing, is_reckless) = (None, false, false);
        Self { seed, span, fault, workers: 3, excuses_nothing, is_reckless }
    }

    /// As the environment says: `LEASEHOLD_CHAOS_SEED`, `LEASEHOLD_CHAOS_SECONDS`, `LEASEHOLD_CHAOS_FAULT` and
    /// `LEASEHOLD_CHAOS_WORKERS`. Otherwise seven seconds of three workers by seed 1.
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
