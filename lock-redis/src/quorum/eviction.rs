//! Ends holds for an operator.
//!
//! An eviction first asks who has the lock, then gives each such claim back for its owner on all servers, like a
//! release. So each server knows that this hold has ended, also one that lacks its key: no vote that a renewal has sent
//! before restores it. A server that does not answer is told later. A foreign client's key is only deleted.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::future::join_all;
use lock_core::backend::Release;
use lock_core::{BackendError, Clock, FencingToken, Holder, LockName, OwnerId, SystemClock, Whom};

use super::BACKEND;
use super::backend::QuorumBackend;
use super::inspection::strongest;
use super::keys::{of_eviction, of_inspection};
use super::majority::{have_answered, said, too_few};
use super::round::Round;
use super::scripts::EVICT;
use super::voter::{ANSWER_COUNTS_FOR, GivingBack, Voter};
use crate::protocol::keys::Keys;
use crate::protocol::reply;
use crate::scripts::INSPECT;

/// A hold on one server.
struct Found {
    value: Vec<u8>,
    holder: Holder,
}

impl QuorumBackend {
    pub(super) async fn end_holds(
        &self,
        name: &LockName,
        whom: &Whom,
    ) -> Result<Vec<Holder>, BackendError> {
        let mut round = Round::ask(&self.voters, |voter| {
            let name = name.clone();
            async move { voter.find(&name).await }
        });
        let answers = round.all().await;
        if !have_answered(answers) {
            return Err(too_few(answers));
        }
        let found = said(answers).flatten().filter(|found| whom.includes(&found.holder));
        let evictions = claims(found.clone()).into_iter();
        let evictions = evictions.map(|(owner, ballot)| self.end_hold(name, owner, ballot));
        // A hold of another kind is none of a quorum either. Its key ends with all its holds.
        let is_foreign = |found: &&Found| *whom == Whom::All && claim(&found.value).is_none();
        let foreign: HashSet<_> =
            found.clone().filter(is_foreign).map(|found| &found.value).collect();
        let deletions = foreign.into_iter().map(|value| self.delete(name, value));
        let (evicted, deleted) = tokio::join!(join_all(evictions), join_all(deletions));
        evicted.into_iter().chain(deleted).collect::<Result<(), _>>()?;
        Ok(strongest(found.map(|found| &found.holder), answers).into_iter().collect())
    }

    /// Ends a hold on all servers. A majority must do so before a restarted server can be let in.
    async fn end_hold(
        &self,
        name: &LockName,
        owner: OwnerId,
        ballot: FencingToken,
    ) -> Result<(), BackendError> {
        let (name, ballot, wakes, marks, ends) = (name.clone(), Some(ballot), true, false, true);
        let asked = SystemClock.now();
        let what = Arc::new(GivingBack { name, owner, ballot, wakes, marks, ends });
        let mut round = self.give_back(&self.voters, what);
        let answers = round.until(have_answered::<Release>).await;
        let answer = match have_answered(answers) {
            _ if SystemClock.now().since(asked) > ANSWER_COUNTS_FOR => {
                Err(BackendError::no_answer(BACKEND, ANSWER_COUNTS_FOR))
            }
            true => Ok(()),
            false => Err(too_few(answers)),
        };
        self.finish(round);
        answer
    }

    /// Deletes the key of a foreign client, where it has this value.
    async fn delete(&self, name: &LockName, value: &[u8]) -> Result<(), BackendError> {
        let mut round = Round::ask(&self.voters, |voter| {
            let (name, value) = (name.clone(), value.to_owned());
            async move { voter.delete(&name, &value).await }
        });
        let answers = round.all().await;
        if have_answered(answers) { Ok(()) } else { Err(too_few(answers)) }
    }
}

/// Returns the claims of these holds, each with its greatest ballot: a server may have an earlier attempt of the owner.
fn claims<'a>(found: impl Iterator<Item = &'a Found>) -> HashMap<OwnerId, FencingToken> {
    let mut claims = HashMap::new();
    for (owner, ballot) in found.filter_map(|found| claim(&found.value)) {
        let greatest = claims.entry(owner).or_insert(ballot);
        *greatest = ballot.max(*greatest);
    }
    claims
}

/// Parses the start of `owner:ballot:since:label`.
fn claim(value: &[u8]) -> Option<(OwnerId, FencingToken)> {
    let mut parts = str::from_utf8(value).ok()?.split(':');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

impl Voter {
    /// Returns the hold that this server has.
    async fn find(&self, name: &LockName) -> Result<Option<Found>, BackendError> {
        let keys = Keys::new(name);
        let keys = of_inspection(&keys);
        let ask = self.server.run(&INSPECT, &keys, None::<u64>);
        let reply = self.within_limit(ask).await?;
        let value = reply::values(reply.clone())?.pop().flatten();
        let state = reply::states(&[name], reply)?.pop();
        let holder = state.transpose()?.and_then(|state| state.holder().cloned());
        Ok(value.zip(holder).map(|(value, holder)| Found { value, holder }))
    }

    async fn delete(&self, name: &LockName, value: &[u8]) -> Result<(), BackendError> {
        let keys = Keys::new(name);
        let keys = of_eviction(&keys);
        let ask = self.server.run(&EVICT, &keys, value);
        self.within_limit(ask).await.map(drop)
    }
}
