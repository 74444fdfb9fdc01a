//! The keys of the protocol on a voter.
//!
//! The keys of a lock are those of a single Redis. So foreign clients of the recipe for several servers exclude us,
//! and we exclude them (C29). The keys of the voter itself start with `{}:`. No key of a lock does, since no name is
//! empty.

use crate::protocol::keys::{Key, Keys};

/// The voter's own keys: the run of the server that was admitted; a mark that it does not vote yet; the longest end
/// of its holds; its greatest ballot; and the least ballot that it grants after a loss of its data.
pub(super) const RUN: Key<'static> = Key::Lock("{}:run");
pub(super) const OUT: Key<'static> = Key::Lock("{}:out");
pub(super) const HELD: Key<'static> = Key::Lock("{}:held");
pub(super) const HIGH: Key<'static> = Key::Lock("{}:high");
pub(super) const FLOOR: Key<'static> = Key::Lock("{}:floor");

/// Returns the keys of a lock on a voter: lock, fence, waiting, next, withdrawn, ended. The last has the greatest ballot
/// of a hold that ended there.
pub(super) fn of_lock<'a>(keys: &'a Keys<'_>, owner: &'a str) -> [Key<'a>; 6] {
    let [lock, fence, ..] = keys.claiming(owner);
    let [.., withdrawn] = keys.claiming(owner);
    let [waiting, next, ended] = ["waiting", "next", "ended"].map(|what| keys.companion(what));
    [lock, fence, waiting, next, withdrawn, ended]
}

/// Returns the keys of an inspection.
pub(super) fn of_inspection<'a>(keys: &'a Keys<'_>) -> [Key<'a>; 2] {
    [keys.lock(), keys.waiters()]
}

/// Returns the keys of an eviction: lock, waiting, next.
pub(super) fn of_eviction<'a>(keys: &'a Keys<'_>) -> [Key<'a>; 3] {
    [keys.lock(), keys.companion("waiting"), keys.companion("next")]
}
