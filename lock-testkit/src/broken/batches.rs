//! Mixed-up batches of renewals.

use async_trait::async_trait;
use lock_core::DistributedLock;
use lock_core::backend::{Extension, Renewal};

use super::flaw::{ExtensionResult, Flaw, Sound};

/// Changes the questions or the answers of a batch.
#[derive(Debug)]
pub(super) struct Batches {
    asked: fn(Vec<Renewal>) -> Vec<Renewal>,
    answered: fn(Vec<ExtensionResult>) -> Vec<ExtensionResult>,
}

impl Batches {
    pub(super) fn that_ask(asked: fn(Vec<Renewal>) -> Vec<Renewal>) -> Self {
        Self { asked, answered: |answers| answers }
    }

    pub(super) fn that_answer(answered: fn(Vec<ExtensionResult>) -> Vec<ExtensionResult>) -> Self {
        Self { asked: |renewals| renewals, answered }
    }
}

/// Returns the answers in another order, like rows that were selected without an order.
pub(super) fn in_another_order(answers: Vec<ExtensionResult>) -> Vec<ExtensionResult> {
    answers.into_iter().rev().collect()
}

/// Loses all holds if one is lost, like a transaction that is rolled back.
pub(super) fn all_or_none(mut answers: Vec<ExtensionResult>) -> Vec<ExtensionResult> {
    if answers.iter().any(is_lost) {
        answers.fill(Ok(Extension::Lost));
    }
    answers
}

/// Returns only the successful answers, like `UPDATE … RETURNING`.
pub(super) fn only_the_extended(mut answers: Vec<ExtensionResult>) -> Vec<ExtensionResult> {
    answers.retain(|answer| !is_lost(answer));
    answers
}

/// Uses one TTL for all holds, like a single `UPDATE`.
pub(super) fn one_ttl_for_all(mut renewals: Vec<Renewal>) -> Vec<Renewal> {
    if let Some(first) = renewals.first().map(|first| first.ttl) {
        renewals.iter_mut().for_each(|renewal| renewal.ttl = first);
    }
    renewals
}

fn is_lost(answer: &ExtensionResult) -> bool {
    matches!(answer, Ok(Extension::Lost))
}

#[async_trait]
impl Flaw for Batches {
    async fn extend(&self, sound: &Sound, renewals: &[Renewal]) -> Vec<ExtensionResult> {
        let asked = (self.asked)(renewals.to_vec());
        (self.answered)(sound.extend(&asked).await)
    }
}
