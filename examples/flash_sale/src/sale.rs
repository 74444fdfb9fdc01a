//! The sale in figures, and what ends it early.

use std::error::Error;
use std::ffi::OsString;
use std::ops::Range;

/// How many items there are to sell.
pub(crate) const STOCK: u32 = 100;
/// How many people want one.
pub(crate) const BUYERS: u32 = 1000;
/// How many processes serve them.
pub(crate) const WORKERS: u32 = 10;

/// A sale of another size: by how many tasks in how many processes, of what, to whom.
///
/// It is played under the lock alone: once with the lock passing from task to task within a process, and once
/// with a request to the server for each change of holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Sale {
    /// How many processes serve the buyers.
    #[arg(long, default_value_t = WORKERS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) workers: u32,
    /// How many tasks of each process do so at a time; as the act needs it if it is not said.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) tasks: Option<u32>,
    /// How many items there are.
    #[arg(long, default_value_t = STOCK)]
    pub(crate) items: u32,
    /// How many people want one.
    #[arg(long, default_value_t = BUYERS)]
    pub(crate) buyers: u32,
    /// Ask the server for each change of holder.
    #[arg(long, hide = true)]
    pub(crate) no_local_hand_off: bool,
}

impl Sale {
    /// The sale that the acts tell of.
    pub(crate) fn told() -> Self {
        let (workers, items, buyers) = (WORKERS, STOCK, BUYERS);
        Self { workers, tasks: None, items, buyers, no_local_hand_off: false }
    }

    /// The buyers that one of the workers serves.
    pub(crate) fn buyers_of(&self, worker: u32) -> Range<u32> {
        let first =
            |worker| (u64::from(worker) * u64::from(self.buyers) / u64::from(self.workers)) as u32;
        first(worker)..first(worker + 1)
    }

    /// The arguments that tell a worker of it.
    pub(crate) fn to_args(self) -> Vec<OsString> {
        let numbers = [
            ("--workers", Some(self.workers)),
            ("--tasks", self.tasks),
            ("--items", Some(self.items)),
            ("--buyers", Some(self.buyers)),
        ];
        let said = numbers.into_iter().filter_map(|(name, number)| Some((name, number?)));
        let mut args: Vec<OsString> =
            said.flat_map(|(name, number)| [name.into(), number.to_string().into()]).collect();
        args.extend(self.no_local_hand_off.then(|| "--no-local-hand-off".into()));
        args
    }
}

/// An error that ends the show. Nothing treats one kind of it differently from another.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;
