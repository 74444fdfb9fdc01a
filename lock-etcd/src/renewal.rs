//! Extending holds: a keep-alive of the lease, and then the proof, which is the key itself.
//!
//! A keep-alive that succeeds proves nothing: some versions of etcd confirm leases that have expired
//! (etcd#14758). So the keys are read after it, many in one request. A lease has one TTL for life; a
//! hold that wants a longer one moves its key to another lease, which keeps its create revision.

use futures_util::future::join_all;
use lock_core::{
    BackendError, Claim, Extension, FencingToken, LockName, Outcome, OwnerId, Renewal, Ttl,
};

use crate::error::overtaken;
use crate::lease_id::{LeaseId, seconds};
use crate::lock::EtcdLock;
use crate::requests::{self, Entry};

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

impl EtcdLock {
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
    ) -> Result<Vec<Option<Entry>>, BackendError> {
        let keys: Vec<_> = holds.map(|hold| self.root.claim(hold.name, hold.owner)).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        requests::entries(&self.server.txn(requests::read(keys.into_iter())).await?)
    }

    async fn step(&self, hold: &Hold<'_>, entry: Option<Entry>) -> Step {
        let lease = entry.filter(|entry| entry.token == hold.token).map(|entry| entry.lease);
        match lease {
            None => Step::Settled(Ok(Extension::Lost)),
            Some(Some(lease)) if lease.ttl() >= hold.ttl.as_duration() => {
                match self.leases.keep(lease).await {
                    Ok(()) => Step::Kept(lease),
                    Err(error) => Step::Settled(Err(error)),
                }
            }
            Some(lease) => Step::Settled(self.reattach(hold, lease).await),
        }
    }

    /// Moves a hold to a lease of the TTL that is wanted.
    async fn reattach(
        &self,
        hold: &Hold<'_>,
        from: Option<LeaseId>,
    ) -> Result<Extension, BackendError> {
        let mut spare = self.leases.take(seconds(hold.ttl.as_duration())).await?;
        let to = spare.id();
        if !spare.is_new {
            self.leases.keep(to).await?;
        }
        let key = self.root.claim(hold.name, hold.owner);
        let from_id = from.map_or(0, LeaseId::get);
        let txn = requests::reattach(&key, hold.token, from_id, to);
        // From here on the lease may be the hold's.
        spare.used();
        let moved = self.server.txn(txn).await;
        let unused = match &moved {
            Ok(moved) => !moved.succeeded(),
            Err(error) => error.outcome() == Outcome::NotApplied,
        };
        if unused {
            self.leases.give_back(to);
        }
        if !moved?.succeeded() {
            return Err(overtaken("the hold changed while it was extended"));
        }
        self.let_go(hold, from);
        Ok(Extension::Extended(to.ttl()))
    }

    /// A lease that a hold has left serves another, unless a late request of the claim may use it.
    fn let_go(&self, hold: &Hold<'_>, lease: Option<LeaseId>) {
        if let Some(lease) = lease.filter(|_| !self.claims.is_in_doubt(hold.owner)) {
            self.claims.lost(hold.owner, |known| known == lease);
            self.leases.give_back(lease);
        }
    }
}

/// Believes those of the kept holds whose keys are still there, on the same lease.
fn prove(
    steps: Vec<Step>,
    holds: &[Hold<'_>],
    proof: Result<Vec<Option<Entry>>, BackendError>,
) -> Vec<Result<Extension, BackendError>> {
    let kept = steps.iter().filter(|step| matches!(step, Step::Kept(_))).count();
    let mut proof: Vec<Result<Option<Entry>, BackendError>> = match proof {
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
