//! The printed table, and the story of the stopped holder.

use std::cmp::Ordering;
use std::error::Error;
use std::io::{IsTerminal, Write, stdout};
use std::iter::successors;

use anstream::{print, println};
use anstyle::{AnsiColor, Style};

use crate::act::Act;
use crate::news::News;
use crate::played::{Played, Stop};
use crate::sale::Sale;
use crate::stage::Stage;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();

/// Cells of a full bar of progress.
const BAR: usize = 22;

/// Prints the size of the sale, and the head of the table.
pub(crate) fn opening(stage: &Stage) {
    let Sale { workers, items, buyers, .. } = stage.sale;
    println!(
        "{workers} processes sell {items} items to {buyers} buyers. Locks: {}.",
        stage.backend
    );
    println!("\n{:<32}{:>6}{:>10}{:>6}", "", "paid", "sold out", "left");
}

/// A bar in the place of an act's row, on a terminal, while the act is played.
pub(crate) struct Progress {
    act: Act,
    buyers: usize,
    served: usize,
    is_shown: bool,
}

impl Progress {
    pub(crate) fn of(act: Act, sale: Sale) -> Self {
        let is_shown = stdout().is_terminal();
        Self { act, buyers: sale.buyers as usize, served: 0, is_shown }
    }

    /// Counts a served buyer, and draws a bar that has grown.
    pub(crate) fn hear(&mut self, news: News) {
        let cells = |served: usize| BAR * served / self.buyers.max(1);
        let before = cells(self.served);
        self.served += usize::from(matches!(news, News::Sold { .. } | News::SoldOut));
        let now = cells(self.served);
        if self.is_shown && now > before {
            print!("\r{:<32}{:░<BAR$}", self.act.in_short(), "█".repeat(now));
            // A bar that cannot be drawn stops no sale.
            let _ = stdout().flush();
        }
    }
}

/// Prints the row of a finished act, over its bar.
pub(crate) fn row(played: &Played) {
    let (sold, turned_away, left) = (played.sold, played.turned_away(), played.left);
    let (name, items) = (played.act.in_short(), played.sale.items);
    let (color, result) = match sold.cmp(&items) {
        Ordering::Less => (BAD, format!("{} unsold", items - sold)),
        Ordering::Equal => (GOOD, "exact".to_owned()),
        Ordering::Greater => (BAD, format!("{} too many", sold - items)),
    };
    if stdout().is_terminal() {
        print!("\r");
    }
    println!("{name:<32}{sold:>6}{turned_away:>10}{left:>6}  {color}{result}{color:#}");
}

/// Tells what happened to the holders that were stopped.
pub(crate) fn stopped_holders(played: &[Played]) {
    for played in played {
        if let Some(stop) = played.stop {
            println!("\n{}:", played.act.in_short());
            stopped_holder(played, stop);
        }
    }
    println!("\nNo check by the worker closes this gap: it can be stopped right after the check.");
}

fn stopped_holder(played: &Played, stop: Stop) {
    let Stop { worker, token, read, stopped, went_on } = stop;
    let span = went_on.saturating_sub(stopped).as_secs_f64();
    println!(
        "  Worker {worker} holds the lock under token {token}. It reads a stock of {read}, and is stopped for\n  \
         {span:.1} s; its lease lasts 1 s. Other workers get the lock and sell the rest.",
    );
    let late = read.saturating_sub(1);
    match played.late_write() {
        Some(News::Sold { left, .. }) => {
            println!(
                "  Worker {worker} continues and writes {late}. The stock jumps from 0 to {left}."
            );
        }
        Some(News::Refused { seen, .. }) => println!(
            "  Worker {worker} continues and writes {late}. The shop refuses: it has seen token {seen}."
        ),
        _ => println!("  No late write came."),
    }
}

/// Returns an error and its causes, in one line.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let chain = successors(Some(error), |&error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
