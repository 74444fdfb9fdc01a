//! Decides which withdrawals leave a mark on the server (C19).
//!
//! A request of a withdrawn claim may still be on its way, and take the lock when it comes: for nobody.
//! A mark on the server, a key that lasts 30 s, has such a request refused. But a client whose waits are
//! cancelled often would leave thousands of marks, although almost none of its requests can come late.
//! So a withdrawal leaves a mark only where a request can come after it.
//!
//! # Which request can come after the withdrawal
//! A server carries out the requests of one connection in the order in which they were sent, and the
//! link sends nothing of a claim after its withdrawal. A [link](crate::wire::link::Link) is one
//! connection for its whole life: whenever a connection is given up, for whatever reason, further
//! requests go over a new link with another number. So a withdrawal that is sent over the link that
//! carried every request of its claim is carried out after all of them.
//!
//! | requests of the claim | mark |
//! | --- | --- |
//! | all were sent over the link that the withdrawal is sent over | no |
//! | some were sent over an earlier link | yes |
//! | one may be sent yet, since its caller is still there | yes |
//! | none is known: another client made the claim, or it was forgotten | yes |
//!
//! The cases that look doubtful:
//!
//! - *A connection is given up while a withdrawal is being sent.* The link is chosen first, and both the
//!   decision and the sending go by this link. If the withdrawal has no answer, it is repeated over
//!   another link, and the decision is made anew: there is a mark.
//! - *A request was given to a link, which was given up before it was written.* It is
//!   written to the old link or not at all. The withdrawal goes over a new one: there is a mark.
//! - *A server forgot the script, so that a request is sent twice.* The second request is only sent by a
//!   caller that is still there. Each of the two is recorded, and decided, by itself.
//! - *Clones of a store* share this record as they share the links. *Another store* is another client. It
//!   may be given a lease of ours, whose first request had no answer: it does not know the claim, so that
//!   its withdrawal leaves a mark.
//!
//! A request of a withdrawn claim that is made only afterwards is refused right here. This costs the
//! server nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use foldhash::HashMap;
use lock_core::backend::WITHDRAWAL_REMEMBERED;
use lock_core::{BackendError, OwnerId};

use crate::protocol::error::withdrawn;
use crate::wire::link::LinkId;

/// The claims of this client that the server may know of, and those that were withdrawn lately.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    by_owner: Mutex<HashMap<OwnerId, Record>>,
}

/// Knowledge of one claim.
#[derive(Debug)]
struct Record {
    carried_by: Carrier,
    /// Number of calls under way that may send a request of it.
    calls: usize,
    is_withdrawn: bool,
    last_used: Instant,
}

/// Carrier of the requests of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    /// Nothing was sent.
    Nothing,
    /// This link carried all of them.
    One(LinkId),
    /// Some were carried by other links, or by those of another client.
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

    /// Returns true if none of its requests can come late, as long as no further one is sent: one link carried them
    /// all, and the last was answered.
    fn is_settled(&self) -> bool {
        self.calls == 0 && !self.is_withdrawn && self.carried_by != Carrier::Several
    }

    /// Returns true if it is of no use any more. A record is used at least once a second while its claim waits.
    fn is_stale(&self) -> bool {
        self.calls == 0 && self.last_used.elapsed() >= WITHDRAWAL_REMEMBERED
    }
}

/// A call that may send requests of a claim, for as long as its caller is there.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    claims: &'a Claims,
    owner: OwnerId,
}

impl Claims {
    /// A call begins that acquires for `owner`.
    pub(crate) fn begin_call(&self, owner: OwnerId) -> Call<'_> {
        record_of(&mut self.lock(), owner, Carrier::Nothing).calls += 1;
        Call { claims: self, owner }
    }

    /// The claim of `owner` is withdrawn by a request that is sent over `link` next. Returns whether a
    /// request of the claim can come after it, so that it must leave a mark.
    pub(crate) fn withdraw(&self, owner: OwnerId, link: LinkId) -> bool {
        let mut claims = self.lock();
        let record = record_of(&mut claims, owner, Carrier::Several);
        record.is_withdrawn = true;
        record.carried_by != Carrier::One(link) || record.calls > 0
    }

    /// The server has answered that it keeps nothing of the claim of `owner`, or that it holds the lock.
    /// A withdrawal after that is the rare case, and leaves a mark.
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

/// The record of `owner`, which is made if there is none.
fn record_of(
    claims: &mut HashMap<OwnerId, Record>,
    owner: OwnerId,
    carried_by: Carrier,
) -> &mut Record {
    // R4: before the map grows, stale records make room.
    if claims.len() == claims.capacity() && !claims.contains_key(&owner) {
        claims.retain(|_, record| !record.is_stale());
    }
    let record = claims.entry(owner).or_insert_with(|| Record::new(carried_by));
    record.last_used = Instant::now();
    record
}

impl Call<'_> {
    /// The next request of the call is sent over `link`.
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

    /// A claim whose requests went over `links`, one call each, and had no answer.
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

    /// An answer over one link does not settle what another link may deliver late.
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
