//! Interface of operators: inspection, listings, evictions and the doctor.

use async_trait::async_trait;
use lock_core::{
    BackendError, DistributedLock, Finding, Holder, LockAdmin, LockName, LockRequest, LockState,
    Whom,
};

use super::BACKEND;
use super::backend::QuorumBackend;
use super::inspection::{inspect_all, strongest};
use super::keys::of_eviction;
use super::majority::{have_answered, majority, said, too_few};
use super::round::Round;
use super::scripts::EVICT;
use super::voter::Voter;
use crate::operations::doctor;
use crate::protocol::keys::{self, Keys};
use crate::protocol::listing::{held, names_of};
use crate::protocol::reply;

#[async_trait]
impl LockAdmin for QuorumBackend {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let state = inspect_all(&self.voters, vec![name.clone()]).await?.pop();
        state.unwrap_or_else(|| Err(BackendError::refusal(BACKEND, "no answer to an inspection")))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        let names = self.names(prefix).await?;
        held(&names, limit, Vec::new(), |page| inspect_all(&self.voters, page)).await
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
        Ok(strongest(ended, answers).into_iter().collect())
    }

    async fn doctor(&self, prefix: &str) -> Result<Vec<Finding>, BackendError> {
        let mut findings = vec![self.examine_set().await?];
        for voter in &*self.voters {
            let probe = self.take_and_give_back(prefix);
            match doctor::examine(&voter.server, prefix, probe).await {
                Ok(seen) => findings.extend(seen.into_iter().map(|finding| of(voter, finding))),
                Err(error) => {
                    let remedy = "start it again: without it, one failure less is tolerated";
                    findings.push(of(voter, Finding::risk("server", error.to_string(), remedy)));
                }
            }
        }
        Ok(findings)
    }
}

impl QuorumBackend {
    /// Returns the names that start with `prefix` of all locks with a counter on any server, sorted. Each hold has a
    /// counter on a majority, and so on one of the servers that answer.
    async fn names(&self, prefix: &str) -> Result<Vec<LockName>, BackendError> {
        let glob = keys::counters(prefix);
        let mut round = Round::ask(&self.voters, |voter| {
            let glob = glob.clone();
            async move { voter.keys(&glob).await }
        });
        // A silent server is not waited for.
        let answers = round.until(have_answered).await;
        if !have_answered(answers) {
            return Err(too_few(answers));
        }
        Ok(names_of(said(answers).flatten().flatten()))
    }

    /// Checks that all servers can be reached, and vote.
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

    /// Acts as a client, with the doctor's own lock.
    async fn take_and_give_back(&self, prefix: &str) -> Result<(), BackendError> {
        let request = LockRequest::new(format!("{prefix}{}", doctor::PROBE)).ttl(doctor::PROBE_TTL);
        let claim = request.claim();
        let claim = claim.map_err(|error| BackendError::refusal(BACKEND, error.to_string()))?;
        let attempt = self.acquire(&claim, None).await;
        self.withdraw(&claim.name, &[claim.owner]).await.and(attempt.map(drop))
    }
}

impl Voter {
    /// Returns its keys that match `glob`. This has no time limit, since it may take long.
    async fn keys(&self, glob: &str) -> Result<Vec<Vec<String>>, BackendError> {
        let keys = self.server.keys(glob).await.into_iter().collect::<Result<_, _>>();
        keys.map_err(|error| self.signed(error))
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

/// Adds the server's address to a finding.
fn of(voter: &Voter, mut finding: Finding) -> Finding {
    finding.seen = format!("{}: {}", voter.address, finding.seen);
    finding
}
