//! The questions of operators to a backend.

use std::pin::Pin;

use async_trait::async_trait;
use futures_util::Stream;

use crate::model::{BackendError, Finding, Holder, LockName, LockState, Whom};

/// Tells that a lock may have changed. Who is told looks at the lock, so several changes may be told as one.
///
/// One whose end comes tells nothing more.
pub type Changes = Pin<Box<dyn Stream<Item = ()> + Send>>;

/// Looks at the locks of a backend from outside, and ends holds by force.
///
/// Applications and operators ask a [`LockClient`](crate::LockClient), which bounds the time.
#[async_trait]
pub trait LockAdmin: Send + Sync {
    /// Looks at a lock without touching it.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer.
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError>;

    /// Tells of the changes of a lock (C44): of grants, releases and evictions, and of waiters and the ends of
    /// TTLs where the store tells of them. `None` where the store tells nobody who only looks, which is the
    /// default. Those who watch look once a second in any case, so a backend need not know whether its server
    /// is set up to tell.
    ///
    /// What happens while it does not hear yet is not told: it tells once when it begins to hear, and again
    /// after each time that it may have missed something. It is polled only for as long as somebody watches,
    /// and must be cheap to keep and to drop.
    fn changes(&self, name: &LockName) -> Option<Changes> {
        let _ = name;
        None
    }

    /// Lists the locks that are held and whose names start with `prefix`, sorted by name, at most
    /// `limit` of them.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer; that of an [incomplete](BackendError::incomplete) listing if
    /// some of several servers did.
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
    /// All locks of the client that asks have names that start with `prefix` (C49): the rights of a user may be
    /// bound to it, so a doctor that takes a lock takes one of such a name.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer. What it refuses to show is a [`Finding`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    async fn doctor(&self, prefix: &str) -> Result<Vec<Finding>, BackendError>;
}
