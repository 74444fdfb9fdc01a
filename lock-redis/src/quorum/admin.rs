//! Interface of operators: inspection, listings, evictions and the doctor.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use lock_core::backend::take_and_give_back;
use lock_core::{BackendError, Finding, Health, Holder, LockAdmin, LockName, LockState, Whom};

use super::BACKEND;
use super::backend::QuorumBackend;
use super::inspection::inspect_all;
use super::majority::{Answers, errors, have_answered, majority, said, too_few};
use super::membership::{self, VoterReport};
use super::round::Round;
use super::voter::Voter;
use crate::operations::companions::{Form, spoilt};
use crate::operations::doctor;
use crate::protocol::listing::{Unused, list};

/// The companions of a lock.
const COMPANIONS: [(&str, Form); 4] = [
    ("fence", Form::Token),
    ("ended", Form::Token),
    ("waiting", Form::Of("zset")),
    ("next", Form::Of("string")),
];

#[async_trait]
impl LockAdmin for QuorumBackend {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let state = inspect_all(&self.voters, vec![name.clone()], Unused::Shown).await?.pop();
        state.unwrap_or_else(|| Err(BackendError::refusal(BACKEND, "no answer to an inspection")))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        self.list_within(prefix, limit, Duration::MAX).await
    }

    async fn list_within(
        &self,
        prefix: &str,
        limit: usize,
        time: Duration,
    ) -> Result<Vec<LockState>, BackendError> {
        let inspect = |page| inspect_all(&self.voters, page, Unused::LeftOut);
        list(time, limit, |time| self.names(prefix, time), inspect).await
    }

    async fn examine(&self, state: &LockState) -> Result<Vec<Finding>, BackendError> {
        let of_each = self.voters.iter().map(|voter| async move {
            let found = voter
                .within_limit(async { Ok(spoilt(&voter.server, &state.name, &COMPANIONS).await) });
            let found = found.await.unwrap_or_default().into_iter();
            found.map(|finding| of(voter, finding)).collect::<Vec<_>>()
        });
        Ok(join_all(of_each).await.concat())
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        self.end_holds(name, whom).await
    }

    async fn doctor(&self, prefix: &str) -> Result<Vec<Finding>, BackendError> {
        let mut findings = self.examine_set(prefix).await;
        for voter in &*self.voters {
            let probe = async { take_and_give_back(self, prefix).await.map(drop) };
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
    /// Returns the names that start with `prefix` of all locks with a key on any server, sorted. Each hold has its key
    /// on a majority, and so on one of the servers that answer. Stops after `time`, with errors that say so unless a
    /// majority has told all of its names.
    pub(super) async fn names(
        &self,
        prefix: &str,
        time: Duration,
    ) -> Result<(Vec<LockName>, Vec<BackendError>), BackendError> {
        let mut round = Round::ask(&self.voters, |voter| {
            let prefix = prefix.to_owned();
            async move { voter.names(&prefix, time).await }
        });
        // A silent server is not waited for.
        let answers = round.until(have_told_all).await;
        if !have_answered(answers) {
            return Err(too_few(answers));
        }
        let names: BTreeSet<LockName> =
            said(answers).flat_map(|(names, _)| names).cloned().collect();
        let missing = said(answers).filter_map(|(_, missing)| missing.clone());
        let missing = if have_told_all(answers) { Vec::new() } else { missing.collect() };
        Ok((names.into_iter().collect(), missing))
    }

    /// Checks that all servers can be reached and vote, and then that they have all holds. Lets those in that restarted:
    /// no other client may live long enough for that.
    async fn examine_set(&self, prefix: &str) -> Vec<Finding> {
        membership::let_all_in(&self.voters).await;
        let mut round = Round::ask(&self.voters, |voter| async move { voter.tell().await });
        let answers = round.all().await;
        let votes = examine_votes(answers);
        // As long as one does not vote, no hold stands on all.
        match votes.health {
            Health::Good => vec![votes, self.examine_holds(prefix).await],
            _ => vec![votes],
        }
    }
}

impl Voter {
    /// Returns the names of the locks that have a key on it, and an error if they are not all.
    async fn names(&self, prefix: &str, time: Duration) -> Result<Names, BackendError> {
        let (names, missing) = self.server.names_within(prefix, time).await;
        match missing.into_iter().next().map(|error| self.signed(error)) {
            Some(error) if names.is_empty() => Err(error),
            missing => Ok((names, missing)),
        }
    }
}

/// Names of locks, and an error if they are not all.
type Names = (Vec<LockName>, Option<BackendError>);

/// Returns true if a majority has told all of its names.
fn have_told_all(answers: &Answers<Names>) -> bool {
    said(answers).filter(|(_, missing)| missing.is_none()).count() >= majority(answers.len())
}

fn examine_votes(answers: &Answers<VoterReport>) -> Finding {
    let (all, majority) = (answers.len(), majority(answers.len()));
    let voting = said(answers).filter(|told| told.votes()).count();
    let mut seen = format!("{voting} of {all} servers vote; {majority} are needed");
    if let Some(longest) = said(answers).map(|told| told.out).max().filter(|out| !out.is_zero()) {
        seen += &format!("; one that restarted stays out for {longest:.1?} more");
    }
    for error in errors(answers) {
        seen += &format!("; {error}");
    }
    match voting == all {
        true => Finding::good("quorum", seen),
        false => {
            let remedy =
                "start the others; one that restarted votes again after the longest TTL in use";
            Finding::risk("quorum", seen, remedy)
        }
    }
}

/// Adds the server's address to a finding.
fn of(voter: &Voter, mut finding: Finding) -> Finding {
    finding.seen = format!("{}: {}", voter.address, finding.seen);
    finding
}
