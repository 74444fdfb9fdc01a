//! One question to all voters at once.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt};
use lock_core::BackendError;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::majority::Answers;
use super::voter::Voter;

type Asking<T> = Pin<Box<dyn Future<Output = (usize, Result<T, BackendError>)> + Send>>;

/// A question to all voters, and the answers so far.
pub(super) struct Round<T> {
    asking: FuturesUnordered<Asking<T>>,
    answers: Vec<Option<Result<T, BackendError>>>,
}

impl<T: Send + 'static> Round<T> {
    /// Asks these voters at once.
    pub(super) fn ask<F>(voters: &[Arc<Voter>], ask: impl Fn(Arc<Voter>) -> F) -> Self
    where
        F: Future<Output = Result<T, BackendError>> + Send + 'static,
    {
        let asking = voters.iter().enumerate().map(|(index, voter)| {
            let answer = ask(voter.clone());
            Box::pin(async move { (index, answer.await) }) as Asking<T>
        });
        Self { asking: asking.collect(), answers: voters.iter().map(|_| None).collect() }
    }

    /// Waits until the answers are enough, or all voters have answered.
    pub(super) async fn until(&mut self, suffice: impl Fn(&Answers<T>) -> bool) -> &Answers<T> {
        while !suffice(&self.answers) {
            let Some((index, answer)) = self.asking.next().await else { break };
            self.answers[index] = Some(answer);
        }
        &self.answers
    }

    /// Waits until all voters have answered, each with its own time limit.
    pub(super) async fn all(&mut self) -> &Answers<T> {
        self.until(|_| false).await
    }

    pub(super) fn is_complete(&self) -> bool {
        self.asking.is_empty()
    }
}

/// Requests to slower voters that continue after the caller has its answer. They end with the backend.
#[derive(Debug, Default)]
pub(super) struct Background(Mutex<JoinSet<()>>);

impl Background {
    pub(super) fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }

    /// Lets a round continue to its end.
    pub(super) fn finish<T: Send + 'static>(&self, mut round: Round<T>) {
        if !round.is_complete() {
            self.run(async move {
                round.all().await;
            });
        }
    }
}
