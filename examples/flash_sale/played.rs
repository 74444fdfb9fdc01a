//! The record of an act, and questions about it.

use std::time::Duration;

use crate::act::Act;
use crate::news::{Hold, News};
use crate::sale::Sale;

/// A finished act.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) act: Act,
    pub(crate) sale: Sale,
    /// All reports, each with its worker.
    pub(crate) heard: Vec<(u32, News)>,
    /// Stop of the worker with the slow payment.
    pub(crate) stop: Option<Stop>,
    /// Number of sales in the shop's log.
    pub(crate) sold: u32,
    /// The shop's stock at the end.
    pub(crate) left: u32,
}

/// A worker that was stopped between its read and its write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub(crate) worker: u32,
    pub(crate) token: u64,
    /// The stock that the worker had read.
    pub(crate) read: u32,
    pub(crate) stopped: Duration,
    /// Time at which the worker was continued; zero until then.
    pub(crate) went_on: Duration,
}

impl Played {
    /// Returns the number of buyers who were told that nothing is left.
    pub(crate) fn turned_away(&self) -> usize {
        let turned_away = |(_, news): &&(u32, News)| matches!(news, News::SoldOut);
        self.heard.iter().filter(turned_away).count()
    }

    /// Returns the holds of the lock, in the order of their tokens.
    pub(crate) fn holds(&self) -> Vec<Hold> {
        let held = |(_, news): &(u32, News)| match news {
            News::Held(hold) => Some(*hold),
            _ => None,
        };
        let mut holds: Vec<_> = self.heard.iter().filter_map(held).collect();
        holds.sort_by_key(|hold| hold.token);
        holds
    }

    /// Returns the fate of the stopped worker's write: `Sold` if the shop took it, or `Refused`.
    pub(crate) fn late_write(&self) -> Option<News> {
        let stop = self.stop?;
        let its_own = self.heard.iter().filter(|(worker, _)| *worker == stop.worker);
        its_own.map(|(_, news)| *news).find(|news| match *news {
            News::Sold { at, left } => at >= stop.stopped && left + 1 == stop.read,
            News::Refused { token, .. } => token == stop.token,
            _ => false,
        })
    }
}
