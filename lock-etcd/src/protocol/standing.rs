//! Decides on the holders of a lock, only from the claims on it.
//!
//! The holders are the claims at the head of the queue that fit together (C33, C34). The claims before a claim can
//! only go, and none comes before it later. So a holding claim goes on holding whatever others do, and two clients
//! that decide at the same moment agree.
//!
//! A shared claim holds once no claim of another kind is before it. A claim on permits holds once its slots are
//! written in its key (C36):
//!
//! ```text
//!   1/4:0 ◀── 1/4:2 ◀── 1/4:1 ◀──┃── 2/4 ◀───────────┃── 1/4
//!   three hold one of four       ┃ waits, until one   ┃ waits, until the one before it
//!                                ┃ of the three goes  ┃ has its slots, or is gone
//! ```
//!
//! - The claim's own client writes the slots, once, after a read in which all claims before it had theirs.
//! - After that read the claims before it can only go, and keep their slots until then.
//! - The claims after it take no slots before it has its own.
//! - So a slot that was free in the read is free at the write, whatever others decide meanwhile.
//! - If the key was withdrawn, was evicted or has expired, the write finds it changed, and writes nothing.
//!
//! A claim without a place has no claim after it: it is written if no claim was made since its read. The order of the
//! tokens is that of the grants, for all together and for each slot (C35).

use std::cmp::Reverse;

use lock_core::backend::Admission;
use lock_core::{Kind, Label, Slots};

use crate::layout::stored_claim::StoredClaim;
use crate::protocol::requests::front_of;

/// Most claims before ours in the queue that are counted, and known by their keys.
pub(crate) const COUNTED: u16 = 16;

/// Returns the number of claims that a claim of this kind reads: its own and those before it. For permits it reads as
/// many as could be granted beside each other, so that it knows all before it if it fits.
pub(crate) fn read_before(kind: Kind) -> i64 {
    match kind {
        Kind::OneOf(permits) => i64::from(permits.of()) + 1,
        _ => i64::from(COUNTED) + 2,
    }
}

/// Standing of one of the claims on a lock, or of a new claim behind them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Standing {
    /// The claim holds the lock.
    Holds,
    /// The claim holds the lock once these slots are written.
    Fits(Slots),
    Waits,
}

/// The claims before a claim, as far as they were read, the nearest first; for a shared claim, only those of other
/// kinds.
#[derive(Debug)]
pub(crate) struct Before {
    claims: Vec<StoredClaim>,
    /// True if the list is complete.
    is_whole: bool,
}

/// The claims for which a claim must wait in its queue, the nearest first. No claim can come before it later: the
/// list only shrinks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ahead {
    pub(crate) keys: Vec<Vec<u8>>,
    /// True if the list is complete.
    pub(crate) is_whole: bool,
    /// True if one of them holds the lock.
    has_holder: bool,
}

impl Ahead {
    /// Returns the number of claims before us, not counting the holder.
    pub(crate) fn position(&self) -> Option<u64> {
        let holders = usize::from(self.has_holder);
        self.is_whole.then(|| self.keys.len().saturating_sub(holders) as u64)
    }

    /// Returns true if we wait for no claim, so that the lock is ours if our own claim exists.
    pub(crate) fn is_none(&self) -> bool {
        self.is_whole && self.keys.is_empty()
    }

    /// Notes the first claims before the place of a claim of this kind, up to [`front_of`] it. If these are not all, the
    /// last of them is the farthest known one from now on: while it is there, the place is not near the front.
    pub(crate) fn see(&mut self, kind: Kind, front: &[StoredClaim]) {
        match front.get(usize::from(front_of(kind)) - 1) {
            // The place may have known others, nearer ones, which left before these.
            None => *self = Before::all(front).ahead(kind, front.first()),
            Some(last) if !self.is_whole => {
                self.keys.retain(|key| *key != last.key);
                self.keys.truncate(COUNTED.into());
                self.keys.push(last.key.clone());
            }
            Some(_) => {}
        }
    }
}

impl Before {
    /// Returns the claims of `read` that are before `own`; `None` if they are not all known.
    pub(crate) fn of(
        kind: Kind,
        own: Option<&StoredClaim>,
        mut read: Vec<StoredClaim>,
    ) -> Option<Self> {
        let limit = usize::try_from(read_before(kind)).unwrap_or(usize::MAX);
        let is_all = read.len() < limit;
        match (kind, own) {
            (Kind::OneOf(_), None) => Some(Self { claims: read, is_whole: is_all }),
            (_, None) => None,
            (Kind::Shared, Some(own)) => {
                read.retain(|claim| is_in_the_way(kind, claim));
                let is_whole = read.len() < limit;
                read.retain(|claim| claim.revision < own.revision);
                read.sort_by_key(|claim| Reverse(claim.revision));
                Some(Self { claims: read, is_whole })
            }
            (_, Some(own)) => {
                let place = read.iter().position(|claim| claim.key == own.key)?;
                // C36: a claim that was not read may have any slot.
                let may_lack_holders = matches!(kind, Kind::OneOf(_)) && place > 0 && !is_all;
                let claims = read.split_off(place + 1);
                (!may_lack_holders).then_some(Self { claims, is_whole: is_all })
            }
        }
    }

    /// Knows all claims before a claim; `claims` are in the order of their creation.
    fn all(claims: &[StoredClaim]) -> Self {
        Self { claims: claims.iter().rev().cloned().collect(), is_whole: true }
    }

    /// Returns the number of permits and the label of the first claim that waits for permits.
    pub(crate) fn first_waiter(&self) -> Option<(u16, Label)> {
        let waits =
            |claim: &&StoredClaim| claim.kind().permits() > 0 && *claim.slots() == Slots::NONE;
        let first = self.claims.iter().rev().find(waits)?;
        Some((first.kind().permits(), first.value.label.clone()))
    }

    /// Returns the claims for which a claim of this kind must wait. `first` is the first of all claims.
    pub(crate) fn ahead(&self, kind: Kind, first: Option<&StoredClaim>) -> Ahead {
        let in_the_way = self.claims.iter().filter(|claim| is_in_the_way(kind, claim));
        let keys: Vec<_> = in_the_way.map(|claim| claim.key.clone()).collect();
        let has_holder = first.is_some_and(|first| keys.contains(&first.key));
        Ahead { keys, is_whole: self.is_whole, has_holder }
    }
}

impl Standing {
    /// Returns the standing of the claim `own`, or of a new claim behind those that were read.
    pub(crate) fn of(
        kind: Kind,
        own: Option<&StoredClaim>,
        first: Option<&StoredClaim>,
        before: Option<&Before>,
    ) -> Self {
        let holds = match (kind, own) {
            (_, None) => false,
            (Kind::OneOf(_), Some(own)) => *own.slots() != Slots::NONE,
            (Kind::Shared, Some(_)) => {
                before.is_some_and(|before| before.ahead(kind, first).is_none())
            }
            (_, Some(own)) => first.is_some_and(|first| first.key == own.key),
        };
        match (holds, kind) {
            (true, _) => Self::Holds,
            (false, Kind::OneOf(_)) => Self::of_permits(kind, before),
            (false, _) => Self::Waits,
        }
    }

    /// Returns the standing of a claim on permits without slots.
    fn of_permits(kind: Kind, before: Option<&Before>) -> Self {
        let Some(before) = before else { return Self::Waits };
        // C34: even if it would fit.
        if before.claims.iter().any(|claim| is_in_the_way(kind, claim)) {
            return Self::Waits;
        }
        let held = before.claims.iter().map(|claim| (claim.kind(), claim.slots()));
        match Admission::of(kind, held) {
            Admission::Fits(slots) => Self::Fits(slots),
            Admission::Waits => Self::Waits,
        }
    }
}

/// Returns the claims that hold a lock; `claims` are in the order of their creation.
pub(crate) fn holders(claims: &[StoredClaim]) -> &[StoredClaim] {
    let Some(first) = claims.first() else { return claims };
    let held = match first.kind() {
        Kind::Exclusive => 1,
        kind => claims.iter().take_while(|claim| !is_in_the_way(kind, claim)).count(),
    };
    &claims[..held]
}

/// Returns the slots of a claim without any claim before it.
pub(crate) fn first_slots(kind: Kind) -> Slots {
    Slots::new(0..kind.slots())
}

/// Returns true if a claim of this kind waits while `claim`, in its present state, is before it.
fn is_in_the_way(kind: Kind, claim: &StoredClaim) -> bool {
    match kind {
        Kind::Shared => claim.kind() != Kind::Shared,
        Kind::OneOf(permits) => {
            claim.kind().permits() != permits.of() || *claim.slots() == Slots::NONE
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use lock_core::Permits;

    use super::*;
    use crate::layout::value::Value;

    fn one_of(taken: u16, of: u16) -> Kind {
        Kind::OneOf(Permits::new(taken, of).expect("permits"))
    }

    fn claim(revision: i64, kind: Kind, slots: &[u16]) -> StoredClaim {
        let slots = Slots::new(slots.iter().copied());
        StoredClaim {
            key: revision.to_string().into_bytes(),
            revision,
            modified: revision,
            lease: 1,
            value: Value { kind, slots, ..Value::default() },
        }
    }

    /// Returns the standing of the claim `own` among `claims`, in the order of their creation, if the client reads as
    /// much as the server would return.
    fn standing(kind: Kind, own: Option<usize>, claims: &[StoredClaim]) -> Standing {
        let mut read: Vec<_> = claims.iter().rev().cloned().collect();
        if kind == Kind::Shared {
            read.sort_by_key(|claim| claim.kind() == Kind::Shared);
        }
        read.truncate(read_before(kind).try_into().expect("a length"));
        let own = own.map(|own| &claims[own]);
        let before = Before::of(kind, own, read);
        Standing::of(kind, own, claims.first(), before.as_ref())
    }

    #[test]
    fn c34_a_reader_waits_for_those_of_other_kinds_before_it() {
        let (shared, exclusive) = (Kind::Shared, Kind::Exclusive);
        let claims: Vec<_> = [shared, shared, exclusive, shared, exclusive]
            .into_iter()
            .zip(1..)
            .map(|(kind, revision)| claim(revision, kind, &[]))
            .collect();
        assert_eq!(standing(shared, Some(1), &claims), Standing::Holds);
        assert_eq!(standing(shared, Some(3), &claims), Standing::Waits);
        assert_eq!(standing(shared, Some(1), &claims[2..]), Standing::Waits);
        assert_eq!(standing(exclusive, Some(2), &claims), Standing::Waits);
        assert_eq!(holders(&claims), &claims[..2]);
        assert_eq!(holders(&claims[2..]), &claims[2..3]);
    }

    /// For any number of writers after it, and for partial reads.
    #[test]
    fn c34_a_reader_knows_when_it_does_not_know_all_before_it() {
        let mut claims: Vec<_> =
            (1..40).map(|revision| claim(revision, Kind::Exclusive, &[])).collect();
        claims[0] = claim(1, Kind::Shared, &[]);
        assert_eq!(
            standing(Kind::Shared, Some(0), &claims),
            Standing::Waits,
            "it is to look again"
        );
        assert_eq!(standing(Kind::Shared, Some(0), &claims[..9]), Standing::Holds);
    }

    /// S3: the known claims leave first.
    #[test]
    fn s3_a_place_knows_all_claims_before_it_once_they_are_few() {
        let claims: Vec<_> = (1..40).map(|number| claim(number, Kind::Exclusive, &[])).collect();
        let keys = |numbers: Vec<i64>| numbers.iter().map(|n| n.to_string().into_bytes()).collect();
        let mut ahead = Ahead { keys: keys(vec![39, 38, 37]), ..Ahead::default() };
        // The place is not near the front while the last claim of the front is there.
        ahead.see(Kind::Exclusive, &claims[..16]);
        assert_eq!(ahead, Ahead { keys: keys(vec![39, 38, 37, 16]), ..Ahead::default() });
        ahead.see(Kind::Exclusive, &claims[..3]);
        assert_eq!((ahead.keys.clone(), ahead.position()), (keys(vec![3, 2, 1]), Some(2)));
        let whole = ahead.clone();
        ahead.see(Kind::Exclusive, &claims[..16]);
        assert_eq!(ahead, whole, "no claim comes before it later");
    }

    #[test]
    fn c36_slots_are_taken_in_the_order_of_the_queue() {
        let permits = one_of(1, 3);
        let claims = [claim(1, permits, &[1]), claim(2, permits, &[]), claim(3, permits, &[])];
        assert_eq!(standing(permits, Some(0), &claims), Standing::Holds);
        assert_eq!(standing(permits, Some(1), &claims), Standing::Fits(Slots::new([0])));
        assert_eq!(standing(permits, Some(2), &claims), Standing::Waits, "the one before has none");
        assert_eq!(standing(permits, None, &claims), Standing::Waits, "the same");
        assert_eq!(standing(permits, None, &claims[..1]), Standing::Fits(Slots::new([0])));
        assert_eq!(holders(&claims), &claims[..1]);
    }

    /// C36: the slots of claims that are not read are unknown.
    #[test]
    fn c36_a_claim_on_permits_sees_all_before_it_or_waits() {
        let permits = one_of(1, 3);
        let mut claims = vec![claim(1, permits, &[0]), claim(2, permits, &[1])];
        claims.extend((3..9).map(|revision| claim(revision, permits, &[])));
        assert_eq!(standing(permits, Some(2), &claims), Standing::Waits, "many came after it");
        assert_eq!(standing(permits, Some(2), &claims[..3]), Standing::Fits(Slots::new([2])));
        assert_eq!(standing(permits, None, &claims), Standing::Waits);
        // The claim itself is read, but not all claims before it: the first one, with slot 0, is missing.
        let held = (1..4).zip([0, 1, 2]).map(|(revision, slot)| claim(revision, permits, &[slot]));
        let waiting = (4..6).map(|revision| claim(revision, permits, &[]));
        let claims: Vec<_> = held.chain(waiting).collect();
        assert_eq!(standing(permits, Some(3), &claims), Standing::Waits, "slot 0 is not free");
    }

    #[test]
    fn c33_another_number_of_permits_waits_and_all_wait_behind_it() {
        let (two, three) = (one_of(1, 2), one_of(1, 3));
        let claims = [claim(1, three, &[0]), claim(2, two, &[]), claim(3, three, &[])];
        assert_eq!(standing(two, None, &claims[..1]), Standing::Waits);
        assert_eq!(standing(two, Some(1), &claims), Standing::Waits);
        assert_eq!(standing(three, Some(2), &claims), Standing::Waits, "behind the one of two");
        assert_eq!(standing(two, Some(0), &claims[1..]), Standing::Fits(Slots::new([0])));
        let held = [claim(2, two, &[0]), claim(3, three, &[])];
        assert_eq!(standing(three, Some(1), &held), Standing::Waits);
        assert_eq!(holders(&held), &held[..1]);
    }
}
