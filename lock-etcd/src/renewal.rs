//! Extending holds: a keep-alive of the lease, and then the proof, which is the key itself.
//!
//! A keep-alive that succeeds proves nothing: some versions of etcd confirm leases that have expired
//! (etcd#14758). So the keys are read after it, many in one request. A lease has one TTL for life; a
//! hold that wants a longer one moves its key to another lease, which keeps its create revision.

use futures_util::future::{join_all, try_join_all};
use lock_core::backend::{Claim, Extension, Renewal};
use lock_core::{BackendError, FencingToken, LockName, Outcome, OwnerId, Ttl};

use crate::cluster::Cluster;
use crate::error::{lease_gone, overtaken};
use crate::lease_id::{LeaseId, seconds};
use crate::leases::SpareLease;
use crate::requests::{self, StoredClaim};

/// How many keys one request reads. The server takes up to 128 operations.
pub(crate) const BATCH: usize = 100;

/// A hold that is to last longer.
#[derive(Clone, Copy)]
pub(crate) struct Hold<'a> {
    name: &'a LockName,
    owner: OwnerId,
    token: FencingToken,
    ttl: Ttl,
}

impl<'a> Hold<'a> {
    pub(crate) fn renewed(renewal: &'a Renewal) -> Self {
        let Renewal { name, owner, token, ttl, .. } = renewal;
        Self { name, owner: *owner, token: *token, ttl: *ttl }
    }

    /// The hold of a claim that was granted with `token`.
    pub(crate) fn granted(claim: &'a Claim, token: FencingToken) -> Self {
        Self { name: &claim.name, owner: claim.owner, token, ttl: claim.ttl }
    }
}

/// What was done for one hold before its key is read again.
enum Step {
    /// The answer is known.
    Settled(Result<Extension, BackendError>),
    /// Its lease was kept alive.
    Kept(LeaseId),
}

impl Cluster {
    /// Extends at most [`BATCH`] holds.
    pub(crate) async fn extend_batch(
        &self,
        holds: &[Hold<'_>],
    ) -> Vec<Result<Extension, BackendError>> {
        let found = match self.read(holds.iter()).await {
            Ok(found) => found,
            Err(error) => return holds.iter().map(|_| Err(error.clone())).collect(),
        };
        let steps = holds.iter().zip(found).map(|(hold, entry)| self.step(hold, entry));
        let steps = join_all(steps).await;
        let kept = steps.iter().zip(holds);
        let kept = kept.filter(|(step, _)| matches!(step, Step::Kept(_)));
        let proof = self.read(kept.map(|(_, hold)| hold)).await;
        prove(steps, holds, proof)
    }

    /// The keys of holds as they are now.
    async fn read<'a>(
        &self,
        holds: impl Iterator<Item = &'a Hold<'a>>,
    ) -> Result<Vec<Option<StoredClaim>>, BackendError> {
        let keys: Vec<_> = holds.map(|hold| self.root.claim(hold.name, hold.owner)).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        requests::entries(&self.server.txn(requests::read(keys.into_iter())).await?)
    }

    async fn step(&self, hold: &Hold<'_>, entry: Option<StoredClaim>) -> Step {
        let Some(entry) = entry.filter(|entry| entry.token == hold.token) else {
            return Step::Settled(Ok(Extension::Lost));
        };
        match entry.lease {
            Some(lease) if lease.ttl() >= hold.ttl.as_duration() => {
                // A late request may move the key to another lease: that one is renewed as well.
                let others = self.claims.renewed_with(hold.owner, lease);
                let others =
                    try_join_all(others.into_iter().map(|lease| self.leases.keep_alive(lease)));
                match tokio::try_join!(self.leases.keep_alive(lease), others) {
                    Ok((true, _)) => Step::Kept(lease),
                    Ok((false, _)) => Step::Settled(Err(lease_gone())),
                    Err(error) => Step::Settled(Err(error)),
                }
            }
            lease => Step::Settled(self.reattach(hold, lease).await),
        }
    }

    /// Moves a hold to a lease of the TTL that is wanted.
    async fn reattach(
        &self,
        hold: &Hold<'_>,
        from: Option<LeaseId>,
    ) -> Result<Extension, BackendError> {
        let to = self.longer_lease(hold).await?;
        let key = self.root.claim(hold.name, hold.owner);
        let from_id = from.map_or(0, LeaseId::get);
        let moved = self.server.txn(requests::reattach(&key, hold.token, from_id, to)).await;
        if !matches!(&moved, Err(error) if error.outcome() != Outcome::NotApplied) {
            self.claims.move_answered(hold.owner);
        }
        let moved = moved?;
        if moved.succeeded() {
            self.leases.give_back(self.claims.settled(hold.owner, Some(to)));
            self.leases.revoke_if_foreign(from);
            return Ok(Extension::Extended(to.ttl()));
        }
        let entry = requests::entries(&moved)?.pop().flatten();
        if entry.as_ref().is_none_or(|entry| entry.lease != Some(to)) {
            self.leases.give_back(self.claims.lost(hold.owner, to));
        }
        match entry {
            Some(_) => Err(overtaken("the hold changed while it was extended")),
            None => Ok(Extension::Lost),
        }
    }

    /// The lease that a hold is to move to. If an earlier request of the claim had one for it, it is that
    /// one. Notes that a request with it is sent.
    async fn longer_lease(&self, hold: &Hold<'_>) -> Result<LeaseId, BackendError> {
        let known = self.claims.leases(hold.owner).full;
        let known = known.filter(|lease| lease.ttl() >= hold.ttl.as_duration());
        let spare = self.leases.take_if(known.is_none(), seconds(hold.ttl.as_duration())).await?;
        let to = known.or(spare.as_ref().map(SpareLease::id)).ok_or_else(lease_gone)?;
        let is_new = spare.as_ref().is_some_and(|spare| spare.is_new);
        if !is_new && !self.leases.keep_alive(to).await? {
            self.leases.revoke_later(self.claims.lost(hold.owner, to));
            return Err(lease_gone());
        }
        self.claims.move_sent(hold.owner, to, spare.as_ref().map(SpareLease::id).as_slice())?;
        spare.into_iter().for_each(SpareLease::assign);
        Ok(to)
    }
}

/// The answers for the holds. A hold whose lease was kept alive is extended if its key is still there, on
/// the same lease.
fn prove(
    steps: Vec<Step>,
    holds: &[Hold<'_>],
    proof: Result<Vec<Option<StoredClaim>>, BackendError>,
) -> Vec<Result<Extension, BackendError>> {
    let kept = steps.iter().filter(|step| matches!(step, Step::Kept(_))).count();
    let mut proof: Vec<Result<Option<StoredClaim>, BackendError>> = match proof {
        Ok(entries) => entries.into_iter().rev().map(Ok).collect(),
        Err(error) => vec![Err(error); kept],
    };
    let answer = |(step, hold): (Step, &Hold<'_>)| match step {
        Step::Settled(answer) => answer,
        Step::Kept(lease) => match proof.pop().unwrap_or(Ok(None))? {
            Some(entry) if entry.token != hold.token => Ok(Extension::Lost),
            Some(entry) if entry.lease == Some(lease) => Ok(Extension::Extended(lease.ttl())),
            Some(_) => Err(overtaken("the hold moved to another lease")),
            None => Ok(Extension::Lost),
        },
    };
    steps.into_iter().zip(holds).map(answer).collect()
}
