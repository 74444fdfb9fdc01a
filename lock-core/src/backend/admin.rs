//! What operators ask of a backend.

use std::fmt;

use async_trait::async_trait;

use crate::model::{BackendError, Finding, Holder, LockName, LockState, Whom};

/// Looks at the locks of a backend from outside, and ends holds by force.
///
/// Applications and operators ask a [`LockClient`](crate::LockClient), which bounds the time.
#[async_trait]
pub trait LockAdmin: fmt::Debug + Send + Sync + 'static {
    /// Looks at a lock without touching it.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer.
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError>;

    /// Lists the locks that are held and whose names start with `prefix`, sorted by name, at most
    /// `limit` of them.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer.
    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError>;

    /// Ends the holds of `whom`, lets in the waiters who fit then, and says whose holds they were, in the
    /// order of their grants; none if nobody of them held it. With [`Whom::All`] a holder that is not one of
    /// ours is ended too.
    ///
    /// The holder is not asked: it learns of its loss at its next renewal or by its watch. A repeat may
    /// end the hold of the next one.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer.
    ///
    /// # Cancel safety
    /// After a drop the hold may or may not be over.
    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError>;

    /// Looks at the live server for what endangers locks (C31): settings, rights, its role, its clock.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer. What it refuses to show is a [`Finding`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    async fn doctor(&self) -> Result<Vec<Finding>, BackendError>;

    /// As [`doctor`](Self::doctor), for a client all of whose locks have names that start with `prefix`
    /// (C49). A backend whose doctor takes a lock to see whether it may overrides this, since the rights of
    /// a user may be bound to a prefix.
    ///
    /// # Errors
    /// As [`doctor`](Self::doctor).
    ///
    /// # Cancel safety
    /// As [`doctor`](Self::doctor).
    async fn doctor_under(&self, prefix: &str) -> Result<Vec<Finding>, BackendError> {
        let _ = prefix;
        self.doctor().await
    }
}
