//! Plan of a run.

use std::env;
use std::fmt::Debug;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::fault::KILLED;

/// Time of one round of a soak.
const ROUND: Duration = Duration::from_secs(20);

/// Plan of a run. The same seed makes the same choices; their effects depend on the machine too.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed of all choices.
    pub seed: u64,
    /// Time for which workers work and faults strike.
    pub span: Duration,
    /// The name of the only fault; `None` for all faults, in random order.
    pub fault: Option<String>,
    /// Number of workers.
    pub workers: usize,
    /// True if S3 must hold under every fault, even one that makes the store forget: for control runs.
    pub excuses_nothing: bool,
    /// True if workers only increment registers, and all continue after a reported loss: for control runs. Else they
    /// acquire locks in all ways, and a third of the holders continue.
    pub is_reckless: bool,
    /// True for a soak: a rest after each round of work, where the resources in use are counted if workers are
    /// processes. No worker is killed.
    pub soaks: bool,
    /// Folder in which the history is kept, as `STORE-SEED.jsonl.gz`; `None` to keep it after a violation alone.
    pub keep: Option<PathBuf>,
}

impl Plan {
    /// Returns a plan for three workers and all faults.
    pub fn new(seed: u64, span: Duration) -> Self {
        let (fault, excuses_nothing, is_reckless, soaks) = (None, false, false, false);
        Self { seed, span, fault, workers: 3, excuses_nothing, is_reckless, soaks, keep: None }
    }

    /// Returns the plan of the environment: `LEASEHOLD_CHAOS_SEED`, `LEASEHOLD_CHAOS_SECONDS`,
    /// `LEASEHOLD_CHAOS_FAULT`, `LEASEHOLD_CHAOS_WORKERS`, `LEASEHOLD_CHAOS_KEEP` and `LEASEHOLD_CHAOS_SOAKS`, which
    /// is `true` or `false`. The default is seven seconds of three workers with seed 1.
    ///
    /// # Panics
    /// If one of them is not well formed.
    pub fn of_environment() -> Self {
        let seed = parsed("SEED").unwrap_or(1);
        let plan = Self::new(seed, Duration::from_secs(parsed("SECONDS").unwrap_or(7)));
        let workers = parsed("WORKERS").unwrap_or(plan.workers);
        let (soaks, keep) = (parsed("SOAKS").unwrap_or(false), parsed("KEEP"));
        Self { fault: said("FAULT"), workers, soaks, keep, ..plan }
    }

    /// Returns the plan of each round, one after the other. A run that is no soak has one.
    pub(super) fn rounds(&self) -> impl Iterator<Item = Self> + use<> {
        let count = if self.soaks { (self.span.as_secs() / ROUND.as_secs()).max(3) } else { 1 };
        let (plan, span) = (self.clone(), self.span / count as u32);
        (0..count).map(move |round| Self {
            seed: plan.seed.wrapping_add(round),
            span,
            ..plan.clone()
        })
    }

    /// Returns true if a fault may strike.
    pub(super) fn has(&self, fault: &str) -> bool {
        self.fault.as_ref().is_none_or(|only| only == fault) && !(self.soaks && fault == KILLED)
    }
}

fn said(name: &str) -> Option<String> {
    env::var(format!("LEASEHOLD_CHAOS_{name}")).ok().filter(|said| !said.is_empty())
}

fn parsed<T: FromStr<Err: Debug>>(name: &str) -> Option<T> {
    said(name)
        .map(|said| said.parse().unwrap_or_else(|_| panic!("{name} is not well formed: {said}")))
}
