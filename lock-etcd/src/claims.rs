//! What this client knows of its claims: the leases that their requests have given to their keys, or
//! may give yet, and the places that they have in a queue.
//!
//! ```text
//!             request_sent               request_answered, settled
//!   unknown ──────────────▶ unanswered ───────────────────────────▶ settled
//!                             │    ▲  request_sent, move_sent          │
//!                             │    └───────────────────────────────────┤
//!                             │ withdraw              released, or     │
//!                             ▼                       no key is left   ▼
//!                         withdrawn ── remembered for a while ──▶ forgotten
//! ```

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lock_core::backend::WITHDRAWAL_REMEMBERED;
use lock_core::{BackendError, FencingToken, OwnerId};
use tokio::time::Instant;

use crate::error::{overtaken, withdrawn};
use crate::lease_id::LeaseId;

/// The claims of one client, each from its first request until its release or its withdrawal.
#[derive(Default)]
pub(crate) struct Claims(Mutex<HashMap<OwnerId, Claimed>>);

struct Claimed {
    /// The leases with which the next request writes the key.
    leases: ClaimLeases,
    /// All leases that are on the key, or that a request may still give to it.
    assigned: Vec<LeaseId>,
    queue_entry: Option<QueueEntry>,
    /// Requests to write the key that had no answer, and may be carried out late.
    unanswered: u32,
    /// Requests to move the key to another lease that had no answer. Once the key is deleted they do
    /// nothing.
    moving: u32,
    withdrawn: bool,
    touched: Instant,
}

/// The leases with which one request writes the key of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ClaimLeases {
    /// For a hold, of the TTL that was asked for.
    pub(crate) full: Option<LeaseId>,
    /// For a place in the queue.
    pub(crate) queue: Option<LeaseId>,
}

impl ClaimLeases {
    pub(crate) fn all(self) -> impl Iterator<Item = LeaseId> {
        self.full.into_iter().chain(self.queue)
    }

    fn forget(&mut self, forgotten: impl Fn(LeaseId) -> bool) {
        self.full.take_if(|lease| forgotten(*lease));
        self.queue.take_if(|lease| forgotten(*lease));
    }
}

/// A place in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueEntry {
    pub(crate) token: FencingToken,
    pub(crate) lease: LeaseId,
}

/// The leases of a claim that is over.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct EndedClaim {
    pub(crate) leases: Vec<LeaseId>,
    /// Whether a late request may give one of them to the key.
    pub(crate) unresolved: bool,
}

impl Claims {
    /// The leases for the next request of a claim, as far as it has any.
    pub(crate) fn leases(&self, owner: OwnerId) -> ClaimLeases {
        self.entries().get(&owner).map(|claimed| claimed.leases).unwrap_or_default()
    }

    /// A request of the claim is sent that may write its key with `leases`, some of which were `taken`
    /// for it. The error is that the claim was withdrawn, or is over.
    pub(crate) fn request_sent(
        &self,
        owner: OwnerId,
        leases: ClaimLeases,
        taken: &[LeaseId],
    ) -> Result<(), BackendError> {
        let mut entries = self.entries();
        Claimed::of(&mut entries, owner).uses(leases, taken)?.unanswered += 1;
        Ok(())
    }

    /// The request was answered, or is known not to be carried out.
    pub(crate) fn request_answered(&self, owner: OwnerId) {
        if let Some(claimed) = self.entries().get_mut(&owner) {
            claimed.unanswered = claimed.unanswered.saturating_sub(1);
        }
    }

    /// A request is sent that may move the key of a hold to the lease `to`; else as
    /// [`request_sent`](Self::request_sent).
    pub(crate) fn move_sent(
        &self,
        owner: OwnerId,
        to: LeaseId,
        taken: &[LeaseId],
    ) -> Result<(), BackendError> {
        let mut entries = self.entries();
        let leases = ClaimLeases { full: Some(to), queue: None };
        Claimed::of(&mut entries, owner).uses(leases, taken)?.moving += 1;
        Ok(())
    }

    /// That request was answered, or is known not to be carried out.
    pub(crate) fn move_answered(&self, owner: OwnerId) {
        if let Some(claimed) = self.entries().get_mut(&owner) {
            claimed.moving = claimed.moving.saturating_sub(1);
        }
    }

    /// The claim has a key with the lease `on_key`, or no key. Returns the leases that it does not need any
    /// more. While a request may be carried out late, it needs all of them.
    pub(crate) fn settled(&self, owner: OwnerId, on_key: Option<LeaseId>) -> Vec<LeaseId> {
        let mut entries = self.entries();
        let Some(claimed) = entries.get_mut(&owner) else { return Vec::new() };
        claimed.touched = Instant::now();
        claimed.queue_entry.take_if(|queue_entry| Some(queue_entry.lease) != on_key);
        let may_move = claimed.moving > 0 && on_key.is_some();
        if claimed.unanswered > 0 || may_move || claimed.withdrawn {
            return Vec::new();
        }
        claimed.leases.forget(|lease| Some(lease) != on_key);
        let unused = claimed.assigned.extract_if(.., |lease| Some(*lease) != on_key).collect();
        if on_key.is_none() {
            entries.remove(&owner);
        }
        unused
    }

    /// The claim has a place in the queue. Returns the leases that it needs no more.
    pub(crate) fn queued(&self, owner: OwnerId, queue_entry: QueueEntry) -> Vec<LeaseId> {
        if let Some(claimed) = self.entries().get_mut(&owner) {
            claimed.queue_entry = Some(queue_entry);
        }
        self.settled(owner, Some(queue_entry.lease))
    }

    /// The place of a claim in the queue, if it has one.
    pub(crate) fn queue_entry(&self, owner: OwnerId) -> Option<QueueEntry> {
        self.entries().get(&owner)?.queue_entry
    }

    /// A lease is gone, or the key that it had: no further request uses it. Returns the lease if it is to
    /// be revoked. A lease that a late request may use stays with the claim. The request may bring a
    /// hold, which must not be revoked under its holder, and a withdrawal must find the lease.
    pub(crate) fn lost(&self, owner: OwnerId, gone: LeaseId) -> Vec<LeaseId> {
        self.forget(owner, |lease| lease == gone)
    }

    /// One of the leases of the last request was gone, nobody knows which, and the claim has no key: no
    /// further request uses any of them. Returns those that are to be revoked, as [`lost`](Self::lost).
    pub(crate) fn starts_anew(&self, owner: OwnerId) -> Vec<LeaseId> {
        self.forget(owner, |_| true)
    }

    fn forget(&self, owner: OwnerId, gone: impl Fn(LeaseId) -> bool) -> Vec<LeaseId> {
        let mut entries = self.entries();
        let Some(claimed) = entries.get_mut(&owner) else { return Vec::new() };
        claimed.queue_entry.take_if(|queue_entry| gone(queue_entry.lease));
        claimed.leases.forget(&gone);
        if claimed.unanswered + claimed.moving > 0 || claimed.withdrawn {
            return Vec::new();
        }
        let lost = claimed.assigned.extract_if(.., |lease| gone(*lease)).collect();
        if claimed.assigned.is_empty() {
            entries.remove(&owner);
        }
        lost
    }

    /// The claim holds, with the lease `on_key`, and is renewed. Returns the leases that are to be
    /// renewed with it, since a late request may still move its key to them.
    pub(crate) fn renewed_with(&self, owner: OwnerId, on_key: LeaseId) -> Vec<LeaseId> {
        let mut entries = self.entries();
        let Some(claimed) = entries.get_mut(&owner) else { return Vec::new() };
        claimed.touched = Instant::now();
        if claimed.moving == 0 {
            return Vec::new();
        }
        // A key moves only to a longer lease.
        let longer = |lease: &LeaseId| lease.ttl() > on_key.ttl();
        claimed.assigned.iter().copied().filter(longer).collect()
    }

    /// The hold of a claim is over. A claim with a request that had no answer is remembered for its
    /// withdrawal.
    pub(crate) fn released(&self, owner: OwnerId) -> EndedClaim {
        let mut entries = self.entries();
        let Some(claimed) = entries.get_mut(&owner) else { return EndedClaim::default() };
        (claimed.leases, claimed.queue_entry) = (ClaimLeases::default(), None);
        let ended = claimed.ended();
        if !ended.unresolved && !claimed.withdrawn {
            entries.remove(&owner);
        }
        ended
    }

    /// Lets no further request of the claim in. Returns the leases of earlier ones.
    pub(crate) fn withdraw(&self, owner: OwnerId) -> EndedClaim {
        let mut entries = self.entries();
        let claimed = entries.entry(owner).or_insert_with(Claimed::new);
        (claimed.withdrawn, claimed.queue_entry, claimed.touched) = (true, None, Instant::now());
        claimed.ended()
    }

    /// The leases of a withdrawn claim are gone, or can be used by others.
    pub(crate) fn withdrawn(&self, owner: OwnerId) {
        if let Some(claimed) = self.entries().get_mut(&owner) {
            claimed.leases = ClaimLeases::default();
            (claimed.unanswered, claimed.moving) = (0, 0);
            claimed.assigned.clear();
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<OwnerId, Claimed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claimed {
    fn new() -> Self {
        Self {
            leases: ClaimLeases::default(),
            assigned: Vec::new(),
            queue_entry: None,
            unanswered: 0,
            moving: 0,
            withdrawn: false,
            touched: Instant::now(),
        }
    }

    /// The claim of that owner. R4: claims that do not matter any more are forgotten before the map
    /// grows.
    fn of(entries: &mut HashMap<OwnerId, Self>, owner: OwnerId) -> &mut Self {
        if entries.len() == entries.capacity() {
            entries.retain(|_, claimed| claimed.matters());
        }
        entries.entry(owner).or_insert_with(Self::new)
    }

    /// Notes that a request uses `leases`: those that the claim has, or that were taken for it. A lease
    /// that the claim had when the request was begun may serve another claim by now.
    fn uses(&mut self, leases: ClaimLeases, taken: &[LeaseId]) -> Result<&mut Self, BackendError> {
        if self.withdrawn {
            return Err(withdrawn());
        }
        if !leases.all().all(|lease| self.assigned.contains(&lease) || taken.contains(&lease)) {
            return Err(overtaken("the claim is over"));
        }
        self.assigned.extend(leases.all().filter(|lease| taken.contains(lease)));
        (self.leases, self.touched) = (leases, Instant::now());
        Ok(self)
    }

    fn ended(&self) -> EndedClaim {
        EndedClaim { leases: self.assigned.clone(), unresolved: self.unanswered > 0 }
    }

    /// Whether one of its leases may live, or a request of it be on its way. It is remembered for longer
    /// than its leases live. A change of leader may double the life of a lease.
    fn matters(&self) -> bool {
        let longest = self.assigned.iter().map(|lease| lease.ttl()).max().unwrap_or_default();
        self.touched.elapsed() < WITHDRAWAL_REMEMBERED + longest * 2
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    fn leases() -> ClaimLeases {
        ClaimLeases { full: Some(LeaseId::random(600)), queue: Some(LeaseId::random(2)) }
    }

    /// A claim that has sent so many requests with both leases.
    fn asked(requests: usize) -> (Claims, OwnerId, ClaimLeases, Vec<LeaseId>) {
        let (claims, owner, leases) = (Claims::default(), OwnerId::random(), leases());
        let all: Vec<_> = leases.all().collect();
        claims.request_sent(owner, leases, &all).expect("it is new");
        for _ in 1..requests {
            claims.request_sent(owner, leases, &[]).expect("it has them");
        }
        (claims, owner, leases, all)
    }

    /// Makes the map grow, so that what does not matter is forgotten.
    fn others_come(claims: &Claims) {
        for _ in 0..1000 {
            claims.request_sent(OwnerId::random(), ClaimLeases::default(), &[]).expect("it is new");
        }
    }

    /// An unresolved claim is remembered while a lease of it may live. Otherwise its release would let
    /// another claim use that lease.
    #[tokio::test(start_paused = true)]
    async fn c19_an_unresolved_claim_is_remembered_while_its_leases_live() {
        let (claims, owner, leases, all) = asked(2);
        claims.request_answered(owner);
        assert_eq!(claims.settled(owner, leases.full), [], "a late request may use them");
        for _ in 0..10 {
            others_come(&claims);
            advance(Duration::from_secs(200)).await;
            claims.renewed_with(owner, all[0]);
        }
        others_come(&claims);
        let ended = EndedClaim { leases: all, unresolved: true };
        assert_eq!(claims.released(owner), ended);
        assert_eq!(claims.withdraw(owner), ended, "a withdrawal finds them too");
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_asks_for_is_forgotten() {
        let (claims, owner, leases, all) = asked(1);
        claims.withdraw(owner);
        claims.withdrawn(owner);
        others_come(&claims);
        claims.request_sent(owner, leases, &all).expect_err("it was withdrawn");
        advance(WITHDRAWAL_REMEMBERED).await;
        others_come(&claims);
        claims.request_sent(owner, leases, &all).expect("nobody remembers");
    }

    /// One of two requests has no answer. The leases that the other request lost stay with the claim.
    #[tokio::test(start_paused = true)]
    async fn c19_leases_that_were_lost_are_found_by_the_withdrawal() {
        let (claims, owner, _, all) = asked(2);
        claims.request_answered(owner);
        assert_eq!(claims.starts_anew(owner), [], "a late request may have taken the lock");
        assert_eq!(claims.leases(owner), ClaimLeases::default());
        assert_eq!(claims.withdraw(owner), EndedClaim { leases: all, unresolved: true });
    }

    #[tokio::test(start_paused = true)]
    async fn a_settled_claim_keeps_the_lease_of_its_key_alone() {
        let (claims, owner, leases, all) = asked(1);
        claims.request_answered(owner);
        assert_eq!(claims.settled(owner, leases.full), all[1..]);
        let left = EndedClaim { leases: all[..1].to_vec(), unresolved: false };
        assert_eq!(claims.released(owner), left);
        assert_eq!(claims.released(owner), EndedClaim::default());
    }

    /// While a move may be carried out late, both leases are the hold's. Once the key is gone, a late move
    /// does nothing.
    #[tokio::test(start_paused = true)]
    async fn a_hold_keeps_the_lease_that_it_may_move_to() {
        let (claims, owner, leases, all) = asked(1);
        claims.request_answered(owner);
        assert_eq!(claims.settled(owner, leases.queue), all[..1]);
        claims.move_sent(owner, all[0], &all[..1]).expect("it holds");
        assert_eq!(claims.renewed_with(owner, all[1]), all[..1]);
        assert_eq!(claims.settled(owner, leases.queue), []);
        assert_eq!(
            claims.released(owner),
            EndedClaim { leases: vec![all[1], all[0]], unresolved: false }
        );
    }

    /// A renewal that was begun before the release uses no lease that the release gave back.
    #[tokio::test(start_paused = true)]
    async fn no_request_uses_a_lease_that_was_given_back() {
        let (claims, owner, leases, all) = asked(1);
        claims.request_answered(owner);
        claims.released(owner);
        claims.move_sent(owner, all[0], &[]).expect_err("the hold is over");
        claims.request_sent(owner, leases, &[]).expect_err("the claim is over");
    }
}
