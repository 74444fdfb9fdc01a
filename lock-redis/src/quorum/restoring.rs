//! Gives holds back to the servers that have lost them, while a majority has them: the same votes are asked for
//! again, which a voter grants for a ballot that it has not seen.

use std::sync::Arc;

use lock_core::backend::{Claim, Renewal};
use lock_core::{LockRequest, LockState};

use super::ballots::Ballots;
use super::inspection::inspect_all;
use super::majority::{self, Answers};
use super::voter::{Proposal, Voter};

/// Gives back what these answers to `renewals` show to be lost somewhere.
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
    for (index, state) in lost.iter().zip(inspect_all(voters, names).await.unwrap_or_default()) {
        let renewal = &renewals[*index];
        let Some(claim) = state.ok().and_then(|state| claim(renewal, &state)) else { continue };
        let proposal = Proposal { claim, ballot: renewal.token, waiter: None };
        for voter in majority::forgetful(voters, answers, *index) {
            // C11: not after its release.
            if ballots.is_open(renewal.owner, renewal.token) {
                let _ = voter.vote(&proposal).await;
            }
        }
    }
}

/// The claim of a hold, with the label that the servers show which have the hold.
fn claim(renewal: &Renewal, state: &LockState) -> Option<Claim> {
    let holder = state.holder().filter(|holder| holder.token == Some(renewal.token))?;
    let request = LockRequest::new(renewal.name.as_str()).label(holder.label.as_str());
    let mut claim = request.claim().ok()?;
    (claim.owner, claim.ttl) = (renewal.owner, renewal.ttl);
    Some(claim)
}
