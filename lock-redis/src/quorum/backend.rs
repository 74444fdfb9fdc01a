//! The operations on locks, each one round of requests to all servers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{FutureExt, join_all, try_join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use lock_core::backend::{Attempt, Claim, Extension, Grant, Release, Renewal, WaiterHandle};
use lock_core::{
    BackendError, Capabilities, Clock, Contention, DistributedLock, LockAdmin, LockName, Order,
    Outcome, OwnerId, Renewals, SystemClock, TokenDurability, Wakeup,
};
use rand::random_range;
use tokio::time::sleep;

use super::BACKEND;
use super::ballots::{Ballots, Withdrawn};
use super::fence::QuorumFence;
use super::majority::{self, Answers, majority};
use super::membership;
use super::restoring::restore;
use super::round::{Background, Round};
use super::voter::{GivingBack, Proposal, Voter};
use super::votes::{self, Verdict, Vote};
use crate::protocol::error::listening;
use crate::protocol::keys;

/// Number of attempts before the lock counts as "busy".
const ROUNDS: u32 = 8;

/// Longest pause after the first split vote. It doubles after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// Longest pause after any split vote.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Locks on a majority of several independent Redis servers.
///
/// Clones share their connections. The documentation of the crate's module lists the guarantees.
#[derive(Clone)]
pub struct QuorumBackend {
    pub(super) voters: Arc<[Arc<Voter>]>,
    background: Arc<Background>,
    ballots: Arc<Ballots>,
}

impl QuorumBackend {
    pub(super) fn new(voters: Vec<Arc<Voter>>) -> Self {
        let voters = voters.into();
        Self { voters, background: Arc::default(), ballots: Arc::default() }
    }

    /// The fence of a resource, kept on a majority of the servers.
    ///
    /// The fence is as durable as the servers. Its marks must outlive a restart, so the servers need an append-only
    /// file. If the resource has its own store, put the fence into that store.
    pub fn fence(&self, resource: impl AsRef<str>) -> QuorumFence {
        let (voters, background) = (self.voters.clone(), self.background.clone());
        QuorumFence::new(voters, background, keys::mark(resource.as_ref()))
    }

    /// Proposes ballots until one is granted, or another has the lock.
    async fn attempt(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let mut seen = 0;
        for round in 0..ROUNDS {
            let ballot = self.ballots.propose(claim.owner, seen)?;
            let (waiter, restores) = (waiter.cloned(), false);
            let proposal = Proposal { claim: claim.clone(), ballot, waiter, restores };
            let verdict = self.propose(Arc::new(proposal)).await;
            match verdict {
                Verdict::Granted(token) => {
                    return Ok(Attempt::Granted(Grant::new(token, claim.ttl.as_duration())));
                }
                Verdict::Busy(contention) => return Ok(Attempt::Busy(contention)),
                Verdict::NoMajority(error) | Verdict::Refused(error) => return Err(error),
                Verdict::Stale(counter) => seen = counter,
                // Without a pause, candidates that try again at the same time would split the votes again.
                Verdict::Split => sleep(pause_after(round)).await,
            }
        }
        Ok(Attempt::Busy(Contention::unknown()))
    }

    /// Asks all servers for their votes. A failed attempt is given back.
    async fn propose(&self, proposal: Arc<Proposal>) -> Verdict {
        let silent: Vec<bool> = self.voters.iter().map(|voter| voter.is_silent()).collect();
        let asked = SystemClock.now();
        let mut round = Round::ask(&self.voters, |voter| {
            let proposal = proposal.clone();
            async move { voter.vote(&proposal, asked).await }
        });
        let answers = round.until(|answers| votes::is_decided(answers, &silent)).await;
        self.let_newcomers_in();
        let verdict = votes::verdict(answers);
        if !matches!(verdict, Verdict::Granted(_)) {
            self.give_votes_back(&proposal, answers).await;
        }
        self.background.finish(round);
        verdict
    }

    /// Ends a failed attempt on the servers that granted it, or may have granted it, or may still do so.
    async fn give_votes_back(&self, proposal: &Proposal, answers: &Answers<Vote>) {
        let (name, owner) = (proposal.claim.name.clone(), proposal.claim.owner);
        let (ballot, wakes, marks, ends) = (Some(proposal.ballot), false, false, false);
        let what = Arc::new(GivingBack { name, owner, ballot, wakes, marks, ends });
        self.ballots.fail(owner);
        let among = |stands: fn(&Option<Result<Vote, BackendError>>) -> bool| -> Vec<Arc<Voter>> {
            let votes = self.voters.iter().zip(answers).filter(|(_, vote)| stands(vote));
            votes.map(|(voter, _)| voter.clone()).collect()
        };
        let granted = among(|vote| matches!(vote, Some(Ok(Vote::Granted(_)))));
        let unknown = among(|vote| match vote {
            None => true,
            Some(Err(error)) => error.outcome() == Outcome::Unknown,
            Some(Ok(_)) => false,
        });
        // This includes servers that did not answer.
        self.finish(self.give_back(&unknown, what.clone()));
        let mut round = self.give_back(&granted, what);
        round.all().await;
        self.finish(round);
    }

    /// Asks these servers to end a claim.
    pub(super) fn give_back(&self, voters: &[Arc<Voter>], what: Arc<GivingBack>) -> Round<Release> {
        Round::ask(voters, |voter| voter.give_back_or_owe(what.clone()))
    }

    /// Lets the slower servers answer, and sends the requests later that some servers could not receive now.
    pub(super) fn finish(&self, mut round: Round<Release>) {
        let voters = self.voters.clone();
        let settle = async move {
            join_all(voters.iter().map(|voter| voter.clone().settle())).await;
        };
        if !round.is_complete() {
            self.background.run(async move {
                round.all().await;
                settle.await;
            });
        } else if self.voters.iter().any(|voter| voter.is_owed()) {
            self.background.run(settle);
        }
    }

    /// Begins to admit the servers that report to be new.
    fn let_newcomers_in(&self) {
        membership::newcomers(&self.voters).for_each(|let_in| self.background.run(let_in));
    }

    /// Opens the connections that wake a waiter: returns when a majority is open, so that one of them receives each
    /// release. The others are opened in the background.
    async fn open_ears(&self) -> Result<(), BackendError> {
        let mut opening: FuturesUnordered<_> =
            self.voters.iter().map(|voter| voter.node.push.open().map(listening)).collect();
        let (mut open, mut refused) = (0, None);
        while open < majority(self.voters.len()) {
            match opening.next().await {
                Some(Ok(())) => open += 1,
                Some(Err(error)) => refused = Some(error),
                None => break,
            }
        }
        refused.filter(|_| open < majority(self.voters.len())).map_or(Ok(()), Err)
    }

    /// Returns true if enough connections receive messages for the waiter of this claim.
    fn hears(&self, owner: OwnerId, waiter: &WaiterHandle) -> bool {
        let hears = |voter: &&Arc<Voter>| voter.node.push.register(owner, waiter).is_some();
        self.voters.iter().filter(hears).count() >= majority(self.voters.len())
    }

    fn unregister(&self, owner: OwnerId) {
        self.voters.iter().for_each(|voter| voter.node.push.unregister(owner));
    }

    /// Restores holds on the servers that have lost them, while a majority has them, and admits the servers that
    /// report to be new: a holder may be the only client for long.
    fn restore(&self, renewals: Arc<[Renewal]>, mut round: Round<Vec<u8>>) {
        let (voters, ballots) = (self.voters.clone(), self.ballots.clone());
        self.background.run(async move {
            let answers = round.all().await;
            let let_in = join_all(membership::newcomers(&voters));
            tokio::join!(restore(&voters, &ballots, &renewals, answers), let_in);
        });
    }
}

#[async_trait]
impl DistributedLock for QuorumBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(
            BACKEND,
            Order::Unordered,
            Wakeup::Push,
            Renewals::Batched,
            TokenDurability::CounterAndClock,
            Duration::from_millis(1),
            "a minority of the servers may fail, and one that restarts counts for nothing for the longest \
             TTL in use: restarts of others meanwhile end holds; a majority that loses its data at the \
             same time can grant a lock twice; tokens still grow unless the clocks of clients are behind",
        )
    }

    async fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let heard = waiter.is_some_and(|waiter| self.hears(claim.owner, waiter));
        let mut attempt = self.attempt(claim, waiter).await?;
        if let (Attempt::Busy(_), Some(waiter), false) = (&attempt, waiter, heard) {
            // Subscribes before it waits: otherwise the release could be published in between.
            self.open_ears().await?;
            attempt = self.attempt(claim, Some(waiter)).await?;
        }
        if let Attempt::Granted(_) = attempt {
            self.unregister(claim.owner);
        }
        Ok(attempt)
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        renewals.iter().for_each(|renewal| self.ballots.remember(renewal.owner, renewal.token));
        let (renewals, asked): (Arc<[Renewal]>, _) = (renewals.into(), SystemClock.now());
        let mut round = Round::ask(&self.voters, |voter| {
            let renewals = renewals.clone();
            async move { voter.extend(&renewals, asked).await }
        });
        let answers = round.until(|answers| majority::are_extended(answers, renewals.len())).await;
        let extension =
            |(index, renewal): (usize, &Renewal)| majority::extension(answers, index, renewal.ttl);
        let extended = renewals.iter().enumerate().map(extension).collect();
        self.restore(renewals.clone(), round);
        extended
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        let (name, ballot) = (name.clone(), self.ballots.last(owner));
        let (wakes, marks, ends) = (true, false, true);
        let what = GivingBack { name, owner, ballot, wakes, marks, ends };
        // C11: nothing is restored after this.
        self.ballots.fail(owner);
        let answer = self.end(what).await;
        if answer.is_ok() {
            self.ballots.forget(owner);
        }
        answer
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        try_join_all(owners.iter().map(|owner| self.withdraw_one(name, *owner))).await.map(drop)
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }
}

impl QuorumBackend {
    async fn withdraw_one(&self, name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        self.unregister(owner);
        let Withdrawn { ballot, ends } = self.ballots.withdraw(owner);
        // C19: if the ballot is unknown here, only a mark refuses a late request.
        let (name, wakes, marks) = (name.clone(), true, ballot.is_none());
        let what = GivingBack { name, owner, ballot, wakes, marks, ends };
        self.end(what).await.map(drop)
    }

    /// Ends a claim on all servers; a majority must answer.
    async fn end(&self, what: GivingBack) -> Result<Release, BackendError> {
        let mut round = self.give_back(&self.voters, Arc::new(what));
        let answer = majority::release(round.until(majority::is_released).await);
        self.finish(round);
        answer
    }
}

/// Returns a random pause, longer with each round.
fn pause_after(round: u32) -> Duration {
    let longest = (FIRST_PAUSE * (1 << round.min(10))).min(LONGEST_PAUSE);
    longest.mul_f64(random_range(0.0..1.0))
}

impl fmt::Debug for QuorumBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuorumBackend").field("voters", &self.voters).finish_non_exhaustive()
    }
}
