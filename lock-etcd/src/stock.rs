//! Where the leases of one client are: in stock, assigned to a claim, or to be revoked.
//!
//! ```text
//!            granted                     not wanted, or it may have expired
//!   ───────▶ assigned ───────────────────────────────▶ to be revoked ──▶ forgotten
//!             │    ▲                                        ▲
//!   give_back ▼    │ take                                   │ nobody took it for a while
//!            in stock ──────────────────────────────────────┘
//! ```
//!
//! A lease goes back to the stock once no key has it and no request on its way could give it one. A lease
//! that we did not grant, that is to be revoked, or that may have expired never comes to the stock. So
//! no two claims ever share a lease.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::lease_id::LeaseId;

/// How long a lease is kept in stock for the next one that needs it.
const KEPT_FOR: Duration = Duration::from_millis(900);

/// How many leases are kept at most.
const KEPT: usize = 256;

/// What a lease must have left to be used again.
const LEAST_LEFT: Duration = Duration::from_millis(250);

/// The leases of one client.
#[derive(Default)]
pub(crate) struct Stock {
    known: HashMap<LeaseId, Known>,
    /// By their TTL in seconds, with the time since when they are here: the oldest first.
    spare: HashMap<i64, Vec<(LeaseId, Instant)>>,
    revocations: Vec<Revocation>,
    closed: bool,
}

/// A lease that we granted and do not revoke.
struct Known {
    /// When it was granted or last renewed, at the latest that is certain.
    renewed_at: Instant,
    assigned: bool,
}

/// A lease that is to be revoked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Revocation {
    pub(crate) id: LeaseId,
    /// Whether its grant had no answer, and so may be carried out late.
    pub(crate) may_be_granted: bool,
}

impl Stock {
    /// A lease was granted, upon a request of that time, and is assigned to the claim that wanted it.
    pub(crate) fn granted(&mut self, id: LeaseId, asked_at: Instant) {
        if self.known.len() == self.known.capacity() {
            self.known.retain(|id, known| known.renewed_at.elapsed() < id.ttl());
        }
        self.known.insert(id, Known { renewed_at: asked_at, assigned: true });
    }

    /// A lease was renewed, upon a request of that time.
    pub(crate) fn renewed(&mut self, id: LeaseId, asked_at: Instant) {
        if let Some(known) = self.known.get_mut(&id) {
            known.renewed_at = known.renewed_at.max(asked_at);
        }
    }

    /// A lease is no more, or soon will be.
    pub(crate) fn gone(&mut self, id: LeaseId) {
        self.known.remove(&id);
    }

    /// Assigns the youngest spare lease of a TTL, so that the others can go.
    pub(crate) fn take(&mut self, seconds: i64) -> Option<LeaseId> {
        while let Some((id, since)) = self.spare.get_mut(&seconds)?.pop() {
            if since.elapsed() < KEPT_FOR && self.is_good(id) {
                self.known.get_mut(&id)?.assigned = true;
                return Some(id);
            }
            self.revoke_later(id);
        }
        None
    }

    /// Takes a lease back that has no key, and to which no request on its way could give one.
    pub(crate) fn give_back(&mut self, id: LeaseId) {
        let kept: usize = self.spare.values().map(Vec::len).sum();
        let wanted = !self.closed && kept < KEPT && self.is_good(id);
        match self.known.get_mut(&id) {
            Some(Known { assigned: false, .. }) => {}
            Some(known) if wanted => {
                known.assigned = false;
                self.spare.entry(id.seconds()).or_default().push((id, Instant::now()));
            }
            Some(_) | None => self.revoke_later(id),
        }
    }

    pub(crate) fn revoke_later(&mut self, id: LeaseId) {
        self.gone(id);
        self.revocations.push(Revocation { id, may_be_granted: false });
    }

    /// Revokes a lease later whose grant had no answer, and may yet be carried out.
    pub(crate) fn revoke_when_granted(&mut self, id: LeaseId) {
        self.revocations.push(Revocation { id, may_be_granted: true });
    }

    /// What is to be revoked now. That includes what nobody wanted for long enough, and after the end
    /// everything.
    pub(crate) fn take_revocations(&mut self) -> Vec<Revocation> {
        let (now, closed) = (Instant::now(), self.closed);
        let mut idle = Vec::new();
        for spare in self.spare.values_mut() {
            idle.extend(spare.extract_if(.., |(_, since)| closed || now >= *since + KEPT_FOR));
        }
        self.spare.retain(|_, spare| !spare.is_empty());
        idle.into_iter().for_each(|(id, _)| self.revoke_later(id));
        std::mem::take(&mut self.revocations)
    }

    /// When the next lease has been idle for long enough.
    pub(crate) fn idle_at(&self) -> Instant {
        let oldest = self.spare.values().filter_map(|spare| spare.first()).map(|(_, since)| *since);
        oldest.min().unwrap_or_else(|| Instant::now() + KEPT_FOR * 1000) + KEPT_FOR
    }

    /// Nothing is kept from now on.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether we granted a lease, and do not revoke it.
    pub(crate) fn knows(&self, id: LeaseId) -> bool {
        self.known.contains_key(&id)
    }

    /// Whether we know of a lease that it lasts for a while yet.
    fn is_good(&self, id: LeaseId) -> bool {
        let lasts = |known: &Known| known.renewed_at.elapsed() + LEAST_LEFT < id.ttl();
        self.known.get(&id).is_some_and(lasts)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A stock with one lease of 2 s, assigned.
    fn assigned() -> (Stock, LeaseId) {
        let (mut stock, id) = (Stock::default(), LeaseId::random(2));
        stock.granted(id, Instant::now());
        (stock, id)
    }

    fn to_revoke(stock: &mut Stock) -> Vec<LeaseId> {
        stock.take_revocations().into_iter().map(|revocation| revocation.id).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_serves_again_and_is_revoked_when_nobody_wants_it() {
        let (mut stock, id) = assigned();
        stock.give_back(id);
        assert_eq!(stock.take(60), None);
        assert_eq!(stock.take(2), Some(id));
        assert_eq!(stock.take(2), None, "it is assigned");
        stock.give_back(id);
        assert_eq!(to_revoke(&mut stock), []);
        advance(KEPT_FOR).await;
        assert_eq!(to_revoke(&mut stock), [id]);
    }

    /// A lease that was given back late, long after its last renewal, serves nobody.
    #[tokio::test(start_paused = true)]
    async fn a_lease_that_may_have_expired_is_revoked() {
        let (mut stock, id) = assigned();
        advance(SECOND * 19 / 10).await;
        stock.give_back(id);
        assert_eq!(stock.take(2), None);
        assert_eq!(to_revoke(&mut stock), [id]);

        let (mut stock, id) = assigned();
        stock.give_back(id);
        advance(SECOND * 8 / 10).await;
        assert_eq!(stock.take(2), Some(id));
        advance(SECOND).await;
        stock.renewed(id, Instant::now());
        stock.give_back(id);
        assert_eq!(stock.take(2), Some(id), "it was renewed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_was_revoked_or_is_foreign_never_comes_back() {
        let (mut stock, id) = assigned();
        stock.revoke_later(id);
        stock.renewed(id, Instant::now());
        stock.give_back(id);
        stock.give_back(LeaseId::random(2));
        assert_eq!(stock.take(2), None);
        assert_eq!(to_revoke(&mut stock).len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_given_back_twice_serves_one() {
        let (mut stock, id) = assigned();
        stock.give_back(id);
        stock.give_back(id);
        assert_eq!(stock.take(2), Some(id));
        assert_eq!(stock.take(2), None);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_after_the_end() {
        let ((mut stock, id), other) = (assigned(), LeaseId::random(2));
        stock.granted(other, Instant::now());
        stock.give_back(id);
        stock.close();
        stock.give_back(other);
        assert_eq!(to_revoke(&mut stock), [other, id]);
    }
}
