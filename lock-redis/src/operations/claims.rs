//! Decides which withdrawals leave a mark on the server (C19).
//!
//! A request of a withdrawn claim may still be in flight, and acquire the lock when it arrives, for nobody. A mark on
//! the server, a key that lasts 30 s, refuses such a request. But a client that often cancels its waits would leave
//! thousands of marks, although almost none of its requests can come late. So a withdrawal leaves a mark only where a
//! request can come after it.
//!
//! # Requests that can come after the withdrawal
//! A server carries out the requests of one connection in the order of sending, and the link sends no request of a
//! claim after its withdrawal. A [link](crate::wire::link::Link) is one connection for its whole life. Whenever a
//! connection is given up, for any reason, later requests use a new link with another number. So if the withdrawal
//! uses the same link as every request of its claim, the server carries it out after all of them.
//!
//! | requests of the claim | mark |
//! | --- | --- |
//! | all used the withdrawal's link | no |
//! | some used an earlier link | yes |
//! | one may still be sent, since its caller is still there | yes |
//! | unknown: another client made the claim, or it was forgotten | yes |
//!
//! Unclear cases:
//!
//! - *A connection is given up while a withdrawal is being sent.* The link is chosen first, and both the decision and
//!   the sending use it. A withdrawal without an answer is repeated over another link, with a new decision: there is
//!   a mark.
//! - *A link is given up before it has written a request.* The request is written to the old link or not at all. The
//!   withdrawal uses a new link: there is a mark.
//! - *A server forgot the script, so that a request is sent twice.* Only a caller that is still there sends the
//!   second request. Each of the two is recorded, and decided, separately.
//! - *Clones of a store* share this record and the links. *Another store* is another client. It may receive a lease
//!   of ours, whose first request had no answer: it does not know the claim, so its withdrawal leaves a mark.
//!
//! A later request of a withdrawn claim is refused here, at no cost for the server.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use foldhash::HashMap;
use lock_core::backend::WITHDRAWAL_REMEMBERED;
use lock_core::{BackendError, OwnerId};

use crate::protocol::error::withdrawn;
use crate::wire::link::LinkId;

/// The claims of this client that the server may know, and those that were withdrawn lately.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    by_owner: Mutex<HashMap<OwnerId, Record>>,
}

/// The state of one claim.
#[derive(Debug)]
struct Record {
    carried_by: Carrier,
    /// Number of calls in flight that may send a request of it.
    calls: usize,
    is_withdrawn: bool,
    last_used: Instant,
}

/// The links that carried the requests of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    /// Nothing was sent.
    Nothing,
    /// This link carried all of them.
    One(LinkId),
    /// Other links, or another client, carried some of them.
    Several,
}

impl Carrier {
    fn and(self, link: LinkId) -> Self {
        match self {
            Self::Nothing => Self::One(link),
            Self::One(before) if before == link => self,
            Self::One(_) | Self::Several => Self::Several,
        }
    }
}

impl Record {
    fn new(carried_by: Carrier) -> Self {
        Self { carried_by, calls: 0, is_withdrawn: false, last_used: Instant::now() }
    }

    /// Returns true if none of its requests can come late unless another is sent: one link carried them all, and the
    /// last one was answered.
    fn is_settled(&self) -> bool {
        self.calls == 0 && !self.is_withdrawn && self.carried_by != Carrier::Several
    }

    /// Returns true if the record has no use any more. A waiting claim uses its record at least once a second.
    fn is_stale(&self) -> bool {
        self.calls == 0 && self.last_used.elapsed() >= WITHDRAWAL_REMEMBERED
    }
}

/// A call that may send requests of a claim while its caller is there.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    claims: &'a Claims,
    owner: OwnerId,
}

impl Claims {
    /// Begins a call that acquires for `owner`.
    pub(crate) fn begin_call(&self, owner: OwnerId) -> Call<'_> {
        record_of(&mut self.lock(), owner, Carrier::Nothing).calls += 1;
        Call { claims: self, owner }
    }

    /// Notes that the claim of `owner` is withdrawn by the next request over `link`. Returns true if a request of the
    /// claim can come after it, so that it must leave a mark.
    pub(crate) fn withdraw(&self, owner: OwnerId, link: LinkId) -> bool {
        let mut claims = self.lock();
        let record = record_of(&mut claims, owner, Carrier::Several);
        record.is_withdrawn = true;
        record.carried_by != Carrier::One(link) || record.calls > 0
    }

    /// Notes the server's answer that it keeps nothing of the claim of `owner`, or that the claim holds the lock. A
    /// later withdrawal is rare, and leaves a mark.
    pub(crate) fn forget(&self, owner: OwnerId) {
        let mut claims = self.lock();
        if claims.get(&owner).is_some_and(Record::is_settled) {
            claims.remove(&owner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<OwnerId, Record>> {
        self.by_owner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the record of `owner`; makes one if there is none.
fn record_of(
    claims: &mut HashMap<OwnerId, Record>,
    owner: OwnerId,
    carried_by: Carrier,
) -> &mut Record {
    // R4: stale records are removed before the map grows.
    if claims.len() == claims.capacity() && !claims.contains_key(&owner) {
        claims.retain(|_, record| !record.is_stale());
    }
    let record = claims.entry(owner).or_insert_with(|| Record::new(carried_by));
    record.last_used = Instant::now();
    record
}

impl Call<'_> {
    /// Notes that the next request of the call uses `link`.
    ///
    /// # Errors
    /// [`BackendError`] if the claim was withdrawn here.
    pub(crate) fn sends_over(&self, link: LinkId) -> Result<(), BackendError> {
        let mut claims = self.claims.lock();
        let record = record_of(&mut claims, self.owner, Carrier::Several);
        if record.is_withdrawn {
            return Err(withdrawn());
        }
        record.carried_by = record.carried_by.and(link);
        Ok(())
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(record) = self.claims.lock().get_mut(&self.owner) {
            record.calls = record.calls.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkId = LinkId(1);
    const NEXT_LINK: LinkId = LinkId(2);

    /// Returns a claim with one unanswered request over each of `links`, one call each.
    fn claim_over(claims: &Claims, links: &[LinkId]) -> OwnerId {
        let owner = OwnerId::random();
        for link in links {
            claims.begin_call(owner).sends_over(*link).expect("not withdrawn");
        }
        owner
    }

    #[test]
    fn c19_a_withdrawal_over_the_only_link_of_its_claim_leaves_no_mark() {
        let claims = Claims::default();
        let owner = claim_over(&claims, &[LINK, LINK]);
        assert!(!claims.withdraw(owner, LINK));
        assert!(!claims.withdraw(owner, LINK), "nor does a repeat");
        assert!(claims.withdraw(owner, NEXT_LINK), "the first withdrawal may have been lost");
    }

    #[test]
    fn c19_a_withdrawal_over_another_link_leaves_a_mark() {
        let claims = Claims::default();
        for links in [&[LINK][..], &[LINK, NEXT_LINK]] {
            assert!(claims.withdraw(claim_over(&claims, links), NEXT_LINK), "{links:?}");
        }
    }

    #[test]
    fn c19_a_withdrawal_of_an_unknown_claim_leaves_a_mark() {
        let claims = Claims::default();
        let handed_on = OwnerId::random();
        assert!(claims.withdraw(handed_on, LINK) && claims.withdraw(handed_on, LINK));
    }

    #[test]
    fn c19_a_claim_whose_caller_is_still_there_is_marked_and_refused() {
        let claims = Claims::default();
        let owner = OwnerId::random();
        let call = claims.begin_call(owner);
        call.sends_over(LINK).expect("not withdrawn");
        assert!(claims.withdraw(owner, LINK), "it may send once more");
        assert!(call.sends_over(LINK).is_err());
    }

    #[test]
    fn c19_what_was_withdrawn_here_is_refused_here() {
        let claims = Claims::default();
        let owner = claim_over(&claims, &[LINK]);
        claims.withdraw(owner, LINK);
        claims.forget(owner);
        assert!(claims.begin_call(owner).sends_over(LINK).is_err());
    }

    /// An answer over one link does not settle requests of another link.
    #[test]
    fn c19_an_answer_settles_only_what_its_own_link_carried() {
        let claims = Claims::default();
        let settled = claim_over(&claims, &[LINK]);
        claims.forget(settled);
        assert!(claims.lock().is_empty());
        let unsettled = claim_over(&claims, &[LINK, NEXT_LINK]);
        claims.forget(unsettled);
        claims.begin_call(unsettled).sends_over(NEXT_LINK).expect("not withdrawn");
        assert!(claims.withdraw(unsettled, NEXT_LINK), "the first request may come late");
    }

    #[test]
    fn r4_stale_records_make_room() {
        let claims = Claims::default();
        let add = || claim_over(&claims, &[LINK]);
        let first = add();
        let capacity = claims.lock().capacity();
        while claims.lock().len() < capacity {
            add();
        }
        let mut age = Instant::now();
        age -= WITHDRAWAL_REMEMBERED;
        for record in claims.lock().values_mut() {
            record.last_used = age;
        }
        let last = add();
        let owners: Vec<OwnerId> = claims.lock().keys().copied().collect();
        assert!(owners == [last] && first != last, "{owners:?}");
    }
}
