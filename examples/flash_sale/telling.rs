//! The printed story.

use std::cmp::Ordering;
use std::error::Error;
use std::iter::successors;

use crate::act::Act;
use crate::news::News;
use crate::played::{Played, Stop};
use crate::sale::Sale;
use crate::stage::Stage;

pub(crate) fn opening(stage: &Stage) {
    let Sale { workers, items, buyers, .. } = stage.sale;
    println!(
        "A shop has {items} items. {buyers} buyers want one, and {workers} processes serve them.\n\
         The shop is a few files; the locks come from the {} backend.",
        stage.backend
    );
}

/// Prints the events of an act.
pub(crate) fn act(played: &Played) {
    match played.act {
        Act::WithoutLock => without_lock(played),
        Act::WithLock => with_lock(played),
        Act::StoppedUnfenced => {
            stopped(played);
            println!("\n  A shop that trusts the lock:");
            late_write(played);
        }
        Act::StoppedFenced => {
            println!("\n  The same again, in a shop that checks fencing tokens:");
            late_write(played);
        }
    }
}

fn without_lock(played: &Played) {
    println!(
        "\nAct 1. No lock.\n  \
         A worker reads the stock, takes a payment for a millisecond, writes one less."
    );
    sales(played);
    println!("  Those who read the same number sold the same item.");
}

fn with_lock(played: &Played) {
    println!("\nAct 2. The same, under a lock from the read to the write.");
    sales(played);
    let holds = played.holds();
    if let [first, .., last] = holds[..] {
        let (count, first, last) = (holds.len(), first.token, last.token);
        println!(
            "  {count} holds, one at a time, each with a greater token than the one before:\n  \
             the first had {first}, the last {last}."
        );
    }
}

fn stopped(played: &Played) {
    println!("\nAct 3. Under the lock again, and the system stops one of the workers.");
    let Some(Stop { worker, token, read, stopped, went_on }) = played.stop else {
        return println!("  No worker came to be stopped.");
    };
    let span = went_on.saturating_sub(stopped).as_secs_f64();
    println!(
        "  Worker {worker} holds the lock under token {token}, and has read a stock of {read}.\n  \
         Before it writes, it is stopped for {span:.1} s. Its lease lasts 1 s, then others\n  \
         hold the lock and sell the rest. It goes on, knows of nothing, and writes {}.\n  \
         It learns of its loss when it releases the lock, too late. It did not ask before it\n  \
         wrote; had it asked, it could have been stopped right after the answer. No check on\n  \
         its side closes that gap.",
        read - 1
    );
}

fn late_write(played: &Played) {
    let worker = played.stop.map_or(0, |stop| stop.worker);
    match played.late_write() {
        Some(News::Sold { left, .. }) => {
            println!("  The write of worker {worker} is taken: the stock jumps from 0 to {left}.");
        }
        Some(News::Refused { token, seen }) => println!(
            "  The write of worker {worker} is refused: its token {token} is stale,\n  \
             since the shop has seen {seen}. Its buyer is served anew."
        ),
        _ => return println!("  No late write came."),
    }
    sales(played);
}

fn sales(played: &Played) {
    let (sold, turned_away, left) = (played.sold, played.turned_away(), played.left);
    println!(
        "  {sold} buyers paid for one of {} items, {turned_away} were told \"sold out\".",
        played.sale.items
    );
    if left > 0 {
        println!("  The stock still says {left}.");
    }
}

/// Prints the acts side by side.
pub(crate) fn summary(played: &[Played]) {
    println!("\n{:<32}{:>6}{:>10}{:>6}", "", "paid", "sold out", "left");
    for played in played {
        let (sold, turned_away, left) = (played.sold, played.turned_away(), played.left);
        let (name, items) = (played.act.in_short(), played.sale.items);
        let result = match sold.cmp(&items) {
            Ordering::Less => format!("{} unsold", items - sold),
            Ordering::Equal => "exact".to_owned(),
            Ordering::Greater => format!("{} too many", sold - items),
        };
        println!("{name:<32}{sold:>6}{turned_away:>10}{left:>6}  {result}");
    }
}

/// Returns an error and its causes, in one line.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let chain = successors(Some(error), |&error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
