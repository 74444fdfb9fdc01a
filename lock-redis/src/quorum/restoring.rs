//! Restores holds on the servers that have lost them, while a majority has them.
//!
//! The client asks these servers again for its votes. By then candidates have asked with greater ballots, and the floor
//! of a server that was let in is greater than the ballots of all holds. So such a vote passes both. It is refused only
//! if a hold with this ballot or a greater one has ended on that server (C11), or the key is not free. No vote that
//! restores a hold is counted. The next renewal finds the hold there, within its own deadline.

use std::sync::Arc;

use lock_core::backend::{Claim, Renewal};
use lock_core::{Clock, LockRequest, LockState, SystemClock};

use super::ballots::Ballots;
use super::inspection::inspect_all;
use super::majority::{self, Answers};
use super::voter::{Proposal, Voter};
use crate::protocol::listing::Unused;

/// Restores the holds that some answers to `renewals` show as lost.
pub(super) async fn restore(
    voters: &[Arc<Voter>],
    ballots: &Ballots,
    renewals: &[Renewal],
    answers: &Answers<Vec<u8>>,
) {
    let is_lost = |index: &usize| majority::forgetful(voters, answers, *index).next().is_some();
    let lost: Vec<usize> = (0..renewals.len()).filter(is_lost).collect();
    if lost.is_empty() {
        return;
    }
    let names = lost.iter().map(|index| renewals[*index].name.clone()).collect();
    // Without an answer the next renewal tries again.
    for (index, state) in
        lost.iter().zip(inspect_all(voters, names, Unused::Shown).await.unwrap_or_default())
    {
        let renewal = &renewals[*index];
        let Some(claim) = state.ok().and_then(|state| claim(renewal, &state)) else { continue };
        let proposal = Proposal { claim, ballot: renewal.token, waiter: None, restores: true };
        for voter in majority::forgetful(voters, answers, *index) {
            // C11: no vote is restored after the release of the hold.
            if ballots.is_open(renewal.owner, renewal.token) {
                let _ = voter.vote(&proposal, SystemClock.now()).await;
            }
        }
    }
}

/// Returns the claim of a hold, with the label from the servers that have it.
fn claim(renewal: &Renewal, state: &LockState) -> Option<Claim> {
    let holder = state.holder().filter(|holder| holder.token == Some(renewal.token))?;
    let request = LockRequest::new(renewal.name.as_str()).label(holder.label.as_str());
    let mut claim = request.claim().ok()?;
    (claim.owner, claim.ttl) = (renewal.owner, renewal.ttl);
    Some(claim)
}
