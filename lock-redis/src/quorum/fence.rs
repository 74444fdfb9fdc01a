//! The side of the resource, kept on a majority.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{BackendError, Fence, FenceError, FencingToken};

use super::majority::{Answers, have_answered, majority, said, too_few};
use super::round::{Background, Round};
use super::voter::Voter;
use crate::operations::fence::RedisFence;

/// The fence of a resource, on a majority of the servers.
///
/// [`QuorumBackend::fence`](super::QuorumBackend::fence) makes it. A token passes if a majority has seen no greater
/// one. Two majorities share a server, so every later check knows an accepted token.
#[derive(Clone)]
pub struct QuorumFence {
    voters: Arc<[Arc<Voter>]>,
    background: Arc<Background>,
    mark: String,
}

/// Answer of one server to a token.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mark {
    Passed,
    Stale(FencingToken),
}

impl QuorumFence {
    pub(super) fn new(
        voters: Arc<[Arc<Voter>]>,
        background: Arc<Background>,
        mark: String,
    ) -> Self {
        Self { voters, background, mark }
    }

    /// Asks the fence of each server.
    fn ask<T, F>(&self, ask: impl Fn(RedisFence) -> F) -> Round<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, BackendError>> + Send + 'static,
    {
        Round::ask(&self.voters, |voter| {
            let asking = ask(RedisFence::new(voter.server.clone(), self.mark.clone()));
            async move { voter.within_limit(asking).await }
        })
    }
}

#[async_trait]
impl Fence for QuorumFence {
    async fn advance(&self, token: FencingToken) -> Result<(), FenceError> {
        let mut round = self.ask(|fence| async move {
            match fence.advance(token).await {
                Ok(()) => Ok(Mark::Passed),
                Err(FenceError::Stale { seen, .. }) => Ok(Mark::Stale(seen)),
                Err(error) => Err(failure(error)),
            }
        });
        let outcome = passed(token, round.until(|answers| passed(token, answers).is_ok()).await);
        self.background.finish(round);
        outcome
    }

    async fn seen(&self) -> Result<Option<FencingToken>, FenceError> {
        let seen = |fence: RedisFence| async move { fence.seen().await.map_err(failure) };
        let mut round = self.ask(seen);
        let answers = round.all().await;
        match have_answered(answers) {
            true => Ok(said(answers).copied().flatten().max()),
            false => Err(too_few(answers).into()),
        }
    }
}

/// Accepts a token that a majority has accepted.
fn passed(token: FencingToken, answers: &Answers<Mark>) -> Result<(), FenceError> {
    if said(answers).filter(|mark| **mark == Mark::Passed).count() >= majority(answers.len()) {
        return Ok(());
    }
    let stale = said(answers).filter_map(|mark| match mark {
        Mark::Stale(seen) => Some(*seen),
        Mark::Passed => None,
    });
    // C24: a greater token was granted later, on whichever server it was seen.
    match stale.max() {
        Some(seen) => Err(FenceError::Stale { token, seen }),
        None => Err(too_few(answers).into()),
    }
}

/// Turns an error that is not about tokens into one of the backend.
fn failure(error: FenceError) -> BackendError {
    match error {
        FenceError::Backend(error) => error,
        other => BackendError::refusal(super::BACKEND, other.to_string()),
    }
}

impl fmt::Debug for QuorumFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuorumFence").field("mark", &self.mark).finish_non_exhaustive()
    }
}
