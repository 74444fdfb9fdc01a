//! The store of one client, and how it is asked.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::containment::contained;
use super::options::ClientOptions;
use super::parts::ClientParts;
use super::retry;
use crate::backend::{DistributedLock, DistributedLockExt, Extension, LockAdmin, RecordsRuns};
use crate::model::{BackendError, Lease, LockError, LockName, Renewal, Ttl};

/// The backend of one client. Every question to the backend has a time-out.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) backend: Arc<dyn DistributedLock>,
    pub(crate) client: Arc<ClientParts>,
}

impl Deref for Store {
    type Target = ClientParts;

    fn deref(&self) -> &ClientParts {
        &self.client
    }
}

impl Store {
    pub(crate) fn new(backend: Arc<dyn DistributedLock>, options: ClientOptions) -> Self {
        let client = Arc::new(ClientParts::new(backend.capabilities().backend, options));
        Self { backend, client }
    }

    /// Returns the backend's name, as errors show it.
    pub(crate) fn name(&self) -> &'static str {
        self.backend.capabilities().backend
    }

    /// Refuses a call in a fork of the client's process, before it locks a mutex or sleeps: the thread that would unlock
    /// the mutex, or drives the timer, may not exist there.
    pub(crate) fn refuse_in_fork(
        &self,
        operation: &'static str,
        name: Option<&LockName>,
    ) -> Result<(), LockError> {
        let refused = |source| LockError::backend(operation, name, source);
        self.process.check(self.name()).map_err(refused)
    }

    /// Returns the backend's interface for operators.
    pub(crate) fn admin(&self) -> Result<&dyn LockAdmin, BackendError> {
        let without = || BackendError::refusal(self.name(), "the store cannot list its locks");
        self.backend.admin().ok_or_else(without)
    }

    /// Returns the backend's interface for recorded runs.
    pub(crate) fn run_records(&self) -> Result<&dyn RecordsRuns, BackendError> {
        let without = || BackendError::refusal(self.name(), "the store records no runs");
        self.backend.run_records().ok_or_else(without)
    }

    /// Asks the backend within the request time-out, with retries.
    pub(crate) async fn request<T, F>(
        &self,
        mut question: impl FnMut() -> F,
    ) -> Result<T, BackendError>
    where
        F: Future<Output = Result<T, BackendError>>,
    {
        self.request_within(self.options.request_timeout, |_| question()).await
    }

    /// Asks the backend within `limit`, with retries. `question` receives true if an earlier try may have been carried out.
    pub(crate) async fn request_within<T, F>(
        &self,
        limit: Duration,
        mut question: impl FnMut(bool) -> F,
    ) -> Result<T, BackendError>
    where
        F: Future<Output = Result<T, BackendError>>,
    {
        let name = self.name();
        self.process.check(name)?;
        let ask = |is_unknown| contained(name, question(is_unknown));
        retry::within(limit, self.options.longest_try(), name, ask).await
    }

    /// Asks the backend once, for a question that must not be repeated.
    pub(crate) async fn request_once<T>(
        &self,
        answer: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        self.request_once_within(self.options.request_timeout, answer).await
    }

    /// Asks the backend once, within `limit`.
    pub(crate) async fn request_once_within<T>(
        &self,
        limit: Duration,
        answer: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        let name = self.name();
        self.process.check(name)?;
        // C17: no try takes longer than its limit.
        let answer = timeout(limit, contained(name, answer)).await;
        answer.unwrap_or_else(|_| Err(BackendError::no_answer(name, limit)))
    }

    /// Extends a lease on the server, within `limit`.
    pub(crate) async fn extend(
        &self,
        lease: &Lease,
        ttl: Ttl,
        limit: Duration,
    ) -> Result<Extension, LockError> {
        let renewal = Renewal::new(lease, ttl);
        let answer = self.request_within(limit, |_| self.backend.extend_one(&renewal)).await;
        answer.map_err(|source| LockError::backend("extend", Some(&lease.name), source))
    }
}
