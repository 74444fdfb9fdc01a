//! Convenience methods built on those of a backend.

use std::time::Duration;

use async_trait::async_trait;

use super::answers::Extension;
use super::distributed_lock::DistributedLock;
use crate::model::{BackendError, Renewal};

/// Convenience methods of each [`DistributedLock`].
#[async_trait]
pub trait DistributedLockExt: DistributedLock {
    /// Extends one hold: [`extend`](DistributedLock::extend) of a single renewal.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer the question.
    ///
    /// # Cancel safety
    /// As [`extend`](DistributedLock::extend).
    async fn extend_one(&self, renewal: &Renewal) -> Result<Extension, BackendError> {
        let answer = self.extend(std::slice::from_ref(renewal)).await.pop();
        let no_answer = || BackendError::no_answer(self.capabilities().backend, Duration::ZERO);
        answer.unwrap_or_else(|| Err(no_answer()))
    }
}

impl<L: DistributedLock + ?Sized> DistributedLockExt for L {}
