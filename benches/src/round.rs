//! One round of a workload.

use crate::backend::Backend;
use crate::client::{Client, Result};
use crate::contender::Contender;
use crate::effort::Effort;
use crate::figures::{Case, Figures, Key, P50, P99, REQUESTS};
use crate::stores::Store;
use crate::times::Times;

/// Context of a workload: its backend, its effort, and its figures.
pub(crate) struct Round<'a> {
    pub(crate) backend: Backend,
    pub(crate) store: &'a dyn Store,
    pub(crate) effort: Effort,
    pub(crate) figures: &'a mut Figures,
}

impl<'a> Round<'a> {
    /// Notes a figure, if the store tells it.
    pub(crate) fn note(
        &mut self,
        case: Case,
        peer: &'static str,
        figure: &'static str,
        value: impl Into<Option<f64>>,
    ) {
        if let Some(value) = value.into() {
            self.figures.note(Key { backend: self.backend, case, peer, figure }, value);
        }
    }

    /// Notes the median and the 99th percentile of times, if there are any.
    pub(crate) fn note_times(&mut self, case: Case, peer: &'static str, times: &Times) {
        if !times.is_empty() {
            self.note(case, peer, P50, times.quantile(0.5));
            self.note(case, peer, P99, times.quantile(0.99));
        }
    }

    /// Returns the store of a contender.
    pub(crate) fn store_of(&self, contender: Contender) -> &'a dyn Store {
        self.store.part(contender).unwrap_or(self.store)
    }

    /// Returns a client of a contender on its store.
    pub(crate) async fn client(&self, contender: Contender) -> Result<Box<dyn Client>> {
        contender.client(&self.store_of(contender).url()).await
    }

    /// Notes the requests of a contender if the store can tell its requests from those that its scripts call.
    pub(crate) fn note_requests(&mut self, case: Case, contender: Contender, value: Option<f64>) {
        self.note(case, contender.name, REQUESTS, value.filter(|_| contender.is_ours()));
    }

    /// Reports a contender that failed, and continues with the others: its figures are missing.
    pub(crate) fn bear(&self, what: &str, contender: Contender, outcome: Result<()>) {
        if let Err(error) = outcome {
            eprintln!("{}, {what}: {} failed: {error}", self.backend.name(), contender.name);
        }
    }

    /// Returns the contenders, the project first.
    pub(crate) fn contenders(&self) -> &'static [Contender] {
        self.backend.contenders()
    }

    /// Returns the contenders, with the floor before them.
    pub(crate) fn with_floor(&self) -> Vec<Contender> {
        self.backend.with_floor().collect()
    }

    /// Returns the project in each of its modes.
    pub(crate) fn ours(&self) -> impl Iterator<Item = Contender> + use<> {
        self.contenders().iter().copied().filter(|contender| contender.is_ours())
    }
}
