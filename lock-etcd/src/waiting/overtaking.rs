//! Places whose turn has come, and that nobody claims: their waiters have died, and the waiters behind them go on
//! (C28).
//!
//! A place is on the session of its TTL, so no waiter loses its place when the store stops for a while. The claim at
//! the front holds without a write: its client learns of its turn by a watch. So a dead claim looks like a holding
//! one. The time in the value distinguishes them: a holder writes it with its first renewal
//! ([`claimed`](crate::layout::value::claimed)):
//!
//! - The belief in it lasts for [`UNCLAIMED_LASTS`] and counts from a look that saw another claim before it, and so
//!   from before its turn. The [sight](lock_core::backend::Sight) of others counts from a look that saw that its turn had
//!   come. So the belief is over before the deletion, for any clocks whose rates are similar (S3).
//! - The deletion compares that nobody has written to the deleted keys: a hold that is claimed in time stays.
//! - A try has no place. It remembers a front that nobody has claimed, and a later try of the same client deletes it.
//! - A waiter that sees such a front rewrites its own place once, unchanged: this shows that it is alive. The
//!   deletion removes the dead claims at the front, up to the first one that has shown this. So five dead waiters
//!   cost one bound, and the order stays.
//! - A stopped store confirms nothing. A pause between two looks restarts the bound, so that all live waiters have
//!   that time to claim the holds that they received meanwhile.

use std::convert::Infallible;
use std::time::Duration;

use lock_core::backend::{Admission, Sight};
use lock_core::{BackendError, Clock, Kind, SystemClock};
use tokio::time::{sleep, timeout};

use crate::layout::stored_claim::StoredClaim;
use crate::protocol::requests::{self, ClaimKeys};
use crate::waiting::waiters::Turn;
use crate::wire::server::Server;

/// Time for which an unclaimed hold from a place is believed, since the last look that saw another claim before it.
pub(crate) const UNCLAIMED_LASTS: Duration = Duration::from_millis(1800);

/// Interval of looks at a doubtful front.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Interval at which a waiter looks at the front if it does not know all claims before it.
const LOOK_FROM_AFAR: Duration = Duration::from_secs(10);

impl Turn {
    /// Overtakes the dead claims before the place, for as long as it waits.
    pub(crate) async fn overtakes(&self) -> Infallible {
        loop {
            let in_doubt = timeout(LOOK_FROM_AFAR, self.place.in_doubt.notified()).await;
            if in_doubt.is_ok() || !self.place.ahead().is_whole {
                // Boxed, since few fronts are ever in doubt. Without an answer the next doubt begins anew.
                let _ = Box::pin(self.look_at_front()).await;
            }
        }
    }

    /// Looks at the front until it changes, or has been unclaimed for so long that it is overtaken.
    async fn look_at_front(&self) -> Result<(), BackendError> {
        let mut sight: Option<Sight<Vec<StoredClaim>>> = None;
        loop {
            let front = self.front().await?;
            let (now, due) = (SystemClock.now(), due(&front));
            if due.is_empty() || sight.as_ref().is_some_and(|sight| sight.seen != due) {
                return Ok(());
            }
            let is_first = sight.is_none();
            let seen = Sight::again(sight, due, now);
            let end = seen.end();
            if now.has_reached(end) {
                let deleted = requests::overtake(silent(&front, &seen.seen));
                return self.server.txn(deleted).await.map(drop);
            }
            // Most holds are over by the second look, and need no write.
            if !is_first {
                self.show_life().await?;
            }
            sleep(LOOK_EVERY.min(now.until(end))).await;
            sight = Some(seen);
        }
    }

    /// Returns the first claims, up to [`front_of`](requests::front_of) the kind before the own one, which the place knows from now on.
    async fn front(&self) -> Result<Vec<StoredClaim>, BackendError> {
        let place = &self.place;
        let front = front(&self.server, &place.keys, place.revision, place.kind).await?;
        place.ahead().see(place.kind, &front);
        Ok(front)
    }

    /// Rewrites the own place once, unchanged, so that it does not look like that of a dead waiter.
    async fn show_life(&self) -> Result<(), BackendError> {
        let place = &*self.place;
        let touch = requests::touch(&place.keys.own, place.revision, place.session.id());
        self.server.txn(touch).await.map(drop)
    }
}

/// Reads the first claims, up to [`front_of`](requests::front_of) the kind before a place that was made in this revision.
pub(crate) async fn front(
    server: &Server,
    keys: &ClaimKeys,
    revision: i64,
    kind: Kind,
) -> Result<Vec<StoredClaim>, BackendError> {
    let (range, options) = requests::front(keys, revision, kind);
    let found = server.get(range, options).await?;
    Ok(found.kvs().iter().map(StoredClaim::of).collect())
}

/// Returns the claims of a front that hold, or could hold, and are not claimed.
pub(crate) fn due(front: &[StoredClaim]) -> Vec<StoredClaim> {
    let mut due = Vec::new();
    for (number, claim) in front.iter().enumerate().filter(|(_, claim)| !claim.is_claimed()) {
        let before = front[..number].iter().map(|claim| (claim.kind(), claim.slots()));
        // C34: no claim behind a waiting one.
        if !matches!(Admission::of(claim.kind(), before), Admission::Fits(_)) {
            break;
        }
        due.push(claim.clone());
        // C36: the claims behind it wait until it has its slots.
        if let Kind::OneOf(_) = claim.kind() {
            break;
        }
    }
    due
}

/// Returns the claims of a front to delete: the due ones, and the places behind them up to the first that has shown
/// life.
fn silent<'a>(
    front: &'a [StoredClaim],
    due: &'a [StoredClaim],
) -> impl Iterator<Item = &'a StoredClaim> + Clone {
    let is_silent = |claim: &&StoredClaim| due.contains(claim) || !claim.has_shown_life();
    front.iter().filter(|claim| !claim.is_claimed()).take_while(is_silent)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use lock_core::backend::UNTAKEN_LASTS;
    use lock_core::{OwnerId, Permits, Slots};

    use super::*;
    use crate::layout::value::Value;

    fn place(revision: i64, kind: Kind) -> StoredClaim {
        let value = Value { kind, owner: Some(OwnerId::random()), ..Value::default() };
        let key = revision.to_string().into_bytes();
        StoredClaim { key, revision, modified: revision, lease: 1, value }
    }

    fn hold(revision: i64, kind: Kind, slots: &[u16]) -> StoredClaim {
        let mut hold = place(revision, kind);
        hold.value.since = Some(SystemTime::now());
        hold.value.slots = Slots::new(slots.iter().copied());
        hold
    }

    fn numbers(claims: &[StoredClaim]) -> Vec<i64> {
        claims.iter().map(|claim| claim.revision).collect()
    }

    #[test]
    fn c28_only_those_are_due_that_could_hold_and_are_not_claimed() {
        let (exclusive, shared) = (Kind::Exclusive, Kind::Shared);
        let two = Kind::OneOf(Permits::new(1, 2).expect("permits"));
        let three = Kind::OneOf(Permits::new(1, 3).expect("permits"));
        let foreign = StoredClaim { value: Value::default(), ..place(1, exclusive) };
        let cases = [
            (vec![place(1, exclusive), place(2, exclusive)], vec![1]),
            (vec![hold(1, exclusive, &[]), place(2, exclusive)], vec![]),
            (vec![foreign, place(2, exclusive)], vec![]),
            (vec![place(1, shared), place(2, shared), place(3, exclusive)], vec![1, 2]),
            (vec![hold(1, shared, &[]), place(2, shared), place(3, exclusive)], vec![2]),
            (vec![place(1, shared), place(2, exclusive), place(3, shared)], vec![1]),
            (vec![hold(1, two, &[0]), place(2, two), place(3, two)], vec![2]),
            (vec![hold(1, two, &[0]), hold(2, two, &[1]), place(3, two)], vec![]),
            (vec![hold(1, two, &[0]), place(2, three)], vec![]),
            (vec![place(1, two), place(2, two)], vec![1]),
        ];
        for (front, expected) in cases {
            assert_eq!(numbers(&due(&front)), expected, "{front:?}");
        }
    }

    #[test]
    fn s3_the_belief_in_a_hold_is_over_before_others_delete_it() {
        assert!(UNCLAIMED_LASTS < UNTAKEN_LASTS);
    }

    #[test]
    fn c27_a_place_that_has_shown_life_is_not_overtaken_with_the_dead_before_it() {
        let mut front: Vec<_> = (1..6).map(|revision| place(revision, Kind::Exclusive)).collect();
        let gone = |front: &[StoredClaim]| {
            let due = due(front);
            silent(front, &due).map(|claim| claim.revision).collect::<Vec<_>>()
        };
        assert_eq!(gone(&front), [1, 2, 3, 4, 5]);
        front[3].modified = 9;
        assert_eq!(gone(&front), [1, 2, 3]);
        // The first waiter showed life once, and has died since.
        front[0].modified = 9;
        assert_eq!(gone(&front), [1, 2, 3]);
    }
}
