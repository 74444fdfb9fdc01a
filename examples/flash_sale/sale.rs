//! The size of the sale, and the errors that end it.

use std::error::Error;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The size of the sale: processes, tasks, items and buyers.
#[derive(Clone, Copy, Debug, clap::Args, Serialize, Deserialize)]
pub(crate) struct Sale {
    /// Number of processes that serve the buyers.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) workers: u32,
    /// Number of buyers that each process serves at a time, in the acts in which none is stopped.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) tasks: u32,
    /// Number of items.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) items: u32,
    /// Number of people who want one: more than there are items, without those of one worker.
    #[arg(long, default_value_t = 1000)]
    pub(crate) buyers: u32,
}

impl Sale {
    /// Refuses a sale that is too small for some act: while a worker is stopped, the others must sell all
    /// remaining items, and turn a buyer away.
    pub(crate) fn check(self) -> Result<(), Failure> {
        let Self { workers, items, buyers, .. } = self;
        let of_others = buyers - buyers.div_ceil(workers);
        match of_others > items {
            true => Ok(()),
            false => Err(format!(
                "{buyers} buyers at {workers} workers are too few for {items} items, since one worker is \
                 stopped: choose more --buyers"
            )
            .into()),
        }
    }

    /// Returns the stock at which the slow payment comes, in the acts that have one.
    pub(crate) fn slow_at(self) -> u32 {
        (u64::from(self.items) * 7 / 10).max(1) as u32
    }

    /// Returns the buyers that one worker serves.
    pub(crate) fn buyers_of(&self, worker: u32) -> Range<u32> {
        let first =
            |worker| (u64::from(worker) * u64::from(self.buyers) / u64::from(self.workers)) as u32;
        first(worker)..first(worker + 1)
    }
}

/// An error that ends the show. All kinds are treated alike.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;
