//! What operators ask: to look at locks, to list them, to end a hold, to examine the servers.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{
    BackendError, DistributedLock, Finding, Holder, LockAdmin, LockName, LockRequest, LockState,
    Whom,
};

use super::BACKEND;
use super::backend::QuorumBackend;
use super::keys::{of_eviction, of_inspection};
use super::majority::{Answers, have_answered, majority, said, too_few};
use super::round::Round;
use super::scripts::EVICT;
use super::voter::Voter;
use crate::doctor;
use crate::keys::{self, Keys};
use crate::reply;
use crate::scripts::INSPECT;

/// How many locks one request of a listing looks at.
const INSPECT_STEP: usize = 100;

type States = Vec<Result<LockState, BackendError>>;

#[async_trait]
impl LockAdmin for QuorumBackend {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let state = self.inspect_all(vec![name.clone()]).await?.pop();
        state.unwrap_or_else(|| Err(BackendError::refusal(BACKEND, "no answer to an inspection")))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        let mut held = Vec::new();
        for page in self.names(prefix).await?.chunks(INSPECT_STEP) {
            // A key that is no lock hides no lock.
            let states = self.inspect_all(page.to_vec()).await?.into_iter().filter_map(Result::ok);
            held.extend(states.filter(|state| state.holder().is_some()));
            if held.len() >= limit {
                break;
            }
        }
        held.truncate(limit);
        Ok(held)
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        let mut round = Round::ask(&self.voters, |voter| {
            let (name, whom) = (name.clone(), whom.clone());
            async move { voter.evict(&name, &whom).await }
        });
        let answers = round.all().await;
        if !have_answered(answers) {
            return Err(too_few(answers));
        }
        let ended = said(answers).flatten();
        Ok(strongest(ended, answers.len()).into_iter().collect())
    }

    async fn doctor(&self) -> Result<Vec<Finding>, BackendError> {
        self.doctor_under("").await
    }

    async fn doctor_under(&self, prefix: &str) -> Result<Vec<Finding>, BackendError> {
        let mut findings = vec![self.examine_set().await?];
        for voter in &*self.voters {
            let probe = self.take_and_give_back(prefix);
            match doctor::examine(&voter.server, probe).await {
                Ok(seen) => findings.extend(seen.into_iter().map(|finding| of(voter, finding))),
                Err(error) => {
                    let remedy = "start it again: without it one server less may fail";
                    findings.push(of(voter, Finding::risk("server", error.to_string(), remedy)));
                }
            }
        }
        Ok(findings)
    }
}

impl QuorumBackend {
    /// Looks at several locks. A lock is held if a majority may have the same holder.
    async fn inspect_all(&self, names: Vec<LockName>) -> Result<States, BackendError> {
        let names: Arc<[LockName]> = names.into();
        let mut round = Round::ask(&self.voters, |voter| {
            let names = names.clone();
            async move { voter.inspect(&names).await }
        });
        let answers = round.all().await;
        if !have_answered(answers) {
            return Err(too_few(answers));
        }
        Ok(names.iter().enumerate().map(|(index, name)| state(name, answers, index)).collect())
    }

    /// The names that start with `prefix` of all locks that have a counter on any server, sorted. Each hold
    /// has one on a majority, and so on one of those that answer.
    async fn names(&self, prefix: &str) -> Result<Vec<LockName>, BackendError> {
        let glob = keys::counters(prefix);
        let mut round = Round::ask(&self.voters, |voter| {
            let glob = glob.clone();
            async move { voter.server.keys(&glob).await }
        });
        // No bound of a voter: a listing may take long. A server that is silent is not waited for.
        let answers = round.until(have_answered).await;
        if !have_answered(answers) {
            return Err(too_few(answers));
        }
        let counters = said(answers).flatten();
        let names: BTreeSet<_> = counters.filter_map(|key| keys::name_of_counter(key)).collect();
        Ok(names.into_iter().collect())
    }

    /// Whether all servers can be reached, and vote.
    async fn examine_set(&self) -> Result<Finding, BackendError> {
        let mut round = Round::ask(&self.voters, |voter| async move { voter.tell().await });
        let answers = round.all().await;
        let (all, majority) = (answers.len(), majority(answers.len()));
        let voting = said(answers).filter(|told| told.is_in).count();
        let seen = format!("{voting} of {all} servers vote; {majority} are needed");
        Ok(match voting == all {
            true => Finding::good("quorum", seen),
            false => Finding::risk(
                "quorum",
                seen,
                "start the others; one that restarted votes again after the longest TTL in use",
            ),
        })
    }

    /// Does what a client does, with a lock of the doctor's own.
    async fn take_and_give_back(&self, prefix: &str) -> Result<(), BackendError> {
        let request = LockRequest::new(format!("{prefix}{}", doctor::PROBE)).ttl(doctor::PROBE_TTL);
        let claim = request.claim();
        let claim = claim.map_err(|error| BackendError::refusal(BACKEND, error.to_string()))?;
        let attempt = self.try_acquire(&claim, None).await;
        self.withdraw(&claim.name, claim.owner).await.and(attempt.map(drop))
    }
}

impl Voter {
    async fn inspect(&self, names: &[LockName]) -> Result<States, BackendError> {
        let keys: Vec<Keys<'_>> = names.iter().map(Keys::new).collect();
        let keys: Vec<_> = keys.iter().flat_map(of_inspection).collect();
        let ask = self.server.run(&INSPECT, &keys, None::<u64>);
        let names: Vec<&LockName> = names.iter().collect();
        reply::states(&names, self.within_limit(ask).await?)
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Option<Holder>, BackendError> {
        let digits = match whom {
            Whom::All => "",
            Whom::Owner(digits) => digits,
        };
        let keys = Keys::new(name);
        let keys = of_eviction(&keys);
        let ask = self.server.run(&EVICT, &keys, digits);
        Ok(reply::ended(self.within_limit(ask).await?, whom)?.pop())
    }
}

/// A finding about one of the servers.
fn of(voter: &Voter, mut finding: Finding) -> Finding {
    finding.seen = format!("{}: {}", voter.address, finding.seen);
    finding
}

/// The state of the lock that the servers were asked for as the `index`th.
fn state(
    name: &LockName,
    answers: &Answers<States>,
    index: usize,
) -> Result<LockState, BackendError> {
    let mut holders = Vec::new();
    for state in said(answers).filter_map(|states| states.get(index)) {
        // C49: one server is enough to know.
        holders.push(state.as_ref().map_err(Clone::clone)?.holder());
    }
    let unknown = answers.len() - holders.len();
    // A server that does not answer may have the hold as well.
    let holder = strongest(holders.into_iter().flatten(), answers.len() + unknown);
    // Who waits is known to each server apart.
    Ok(LockState::new(name.clone(), holder, None))
}

/// The holder that a majority of so many servers has: since when it was first so, and for as long as it will.
fn strongest<'a>(holders: impl Iterator<Item = &'a Holder>, servers: usize) -> Option<Holder> {
    let holders: Vec<&Holder> = holders.collect();
    let is_same =
        |one: &Holder, other: &Holder| (&one.owner, one.token) == (&other.owner, other.token);
    let count = |of: &Holder| holders.iter().filter(|other| is_same(of, other)).count();
    let strongest = holders.iter().max_by_key(|holder| count(holder))?;
    if count(strongest) < majority(servers) {
        return None;
    }
    let same = || holders.iter().filter(|other| is_same(strongest, other));
    let mut holder = (**same().min_by_key(|holder| holder.since)?).clone();
    // Without an end is the longest.
    let left: Option<Vec<_>> = same().map(|same| same.ttl_left).collect();
    holder.ttl_left = left.and_then(|left| left.into_iter().max());
    Some(holder)
}
