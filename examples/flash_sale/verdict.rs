//! Checks that an act had the announced result.

use crate::act::Act;
use crate::news::{Hold, News};
use crate::played::Played;

/// Returns the deviations of an act from its announced result.
pub(crate) fn objections(played: &Played) -> Vec<String> {
    let mut objections = match played.act {
        Act::WithoutLock => vec![oversold(played)],
        Act::WithLock => vec![exact(played), all_kept(played)],
        Act::StoppedUnfenced => vec![oversold(played), late_write(played), noticed(played)],
        Act::StoppedFenced => vec![exact(played), late_write(played), noticed(played)],
    };
    objections.push(in_turn(played));
    let named = |objection| format!("in \"{}\", {objection}", played.act.in_short());
    objections.into_iter().flatten().map(named).collect()
}

fn oversold(played: &Played) -> Option<String> {
    let sold = played.sold;
    (sold <= played.sale.items).then(|| format!("the shop did not oversell: {sold} sales"))
}

fn exact(played: &Played) -> Option<String> {
    let (sold, left, turned_away) = (played.sold, played.left, played.turned_away());
    let (items, buyers) = (played.sale.items, played.sale.buyers);
    let wanted = items.min(buyers);
    let right = (sold, left, turned_away) == (wanted, items - wanted, (buyers - wanted) as usize);
    (!right).then(|| format!("{sold} paid, {turned_away} were turned away, {left} are left"))
}

/// Checks that a fenced shop refused the late write, and that another shop took it.
fn late_write(played: &Played) -> Option<String> {
    match (played.late_write(), played.act.is_fenced()) {
        (Some(News::Sold { .. }), false) | (Some(News::Refused { .. }), true) => None,
        (other, _) => Some(format!("the late write had another fate: {other:?}")),
    }
}

fn all_kept(played: &Played) -> Option<String> {
    let lost = played.holds().into_iter().find(|hold| !hold.kept)?;
    Some(format!("worker {} lost the lock while it worked", lost.worker))
}

/// Checks that the release of the stopped worker reported the loss of its hold.
fn noticed(played: &Played) -> Option<String> {
    let stop = played.stop?;
    let own = played.holds().into_iter().find(|hold| hold.token == stop.token)?;
    own.kept.then(|| format!("the stopped worker {} still held the lock", own.worker))
}

/// Checks that holds follow each other in the order of tokens. The stopped worker's hold is left out, since it
/// believed in it for too long.
fn in_turn(played: &Played) -> Option<String> {
    let kept: Vec<_> = played.holds().into_iter().filter(|hold| hold.kept).collect();
    let out_of_turn = |pair: &&[Hold]| pair[0].token == pair[1].token || pair[0].to > pair[1].from;
    let [before, after] = kept.windows(2).find(out_of_turn)? else {
        return None;
    };
    let (one, other) = (before.worker, after.worker);
    Some(format!("workers {one} and {other} held the lock together"))
}
