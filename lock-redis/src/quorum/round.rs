//! One question to all voters at once.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt};
use lock_core::{BackendError, Outcome};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::BACKEND;
use super::majority::Answers;
use super::voter::Voter;

/// A voter with its number, and its answer with the run of the server that gave it.
type Said<T> = (usize, Arc<Voter>, Result<(String, T), BackendError>);

type Asking<T> = Pin<Box<dyn Future<Output = Said<T>> + Send>>;

/// A question to all voters, and the answers so far.
pub(super) struct Round<T> {
    asking: FuturesUnordered<Asking<T>>,
    answers: Vec<Option<Result<T, BackendError>>>,
    /// The runs of the servers that have answered, each with the address at which it did.
    runs: Vec<(String, String)>,
}

impl<T: Send + 'static> Round<T> {
    /// Asks these voters at once.
    pub(super) fn ask<F>(voters: &[Arc<Voter>], ask: impl Fn(Arc<Voter>) -> F) -> Self
    where
        F: Future<Output = Result<T, BackendError>> + Send + 'static,
    {
        let asking = voters.iter().enumerate().map(|(index, voter)| {
            let (voter, answer) = (voter.clone(), ask(voter.clone()));
            Box::pin(async move {
                let answer = voter.with_run(answer).await;
                (index, voter, answer)
            }) as Asking<T>
        });
        let answers = voters.iter().map(|_| None).collect();
        Self { asking: asking.collect(), answers, runs: Vec::new() }
    }

    /// Waits until the answers are enough, or all voters have answered.
    pub(super) async fn until(&mut self, suffice: impl Fn(&Answers<T>) -> bool) -> &Answers<T> {
        while !suffice(&self.answers) {
            let Some((index, voter, answer)) = self.asking.next().await else { break };
            let counted = answer.and_then(|said| self.counted_once(&voter.address, said));
            self.answers[index] = Some(counted);
        }
        &self.answers
    }

    /// S3: a server has one vote, also where two addresses lead to it.
    fn counted_once(
        &mut self,
        address: &str,
        (run, answer): (String, T),
    ) -> Result<T, BackendError> {
        if let Some((_, other)) = self.runs.iter().find(|(known, _)| *known == run) {
            let why = format!("it is the same server as {other}, and a server has one vote");
            return Err(BackendError::transient(BACKEND, Outcome::NotApplied, address, why));
        }
        self.runs.push((run, address.to_owned()));
        Ok(answer)
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
