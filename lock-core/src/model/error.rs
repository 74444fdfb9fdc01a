//! What can go wrong, sorted by what the caller can do about it.

use std::time::Duration;

use super::{
    BackendError, Contention, FenceError, InvalidLabel, InvalidLease, InvalidName, InvalidToken,
    InvalidTtl, LockName, LostReason,
};

/// Why an operation on a lock did not do what was asked.
///
/// Texts name the lock and the remedy. None holds an owner id or a password. A source is not
/// repeated in the text of the error that carries it; print the chain to see all of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The name is not 1 to 512 bytes of UTF-8 without control characters. Nothing was sent.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// The label is longer than 128 bytes or holds a control character. Nothing was sent.
    #[error(transparent)]
    InvalidLabel(#[from] InvalidLabel),
    /// The TTL is outside 10 ms to 24 h. Nothing was sent.
    #[error(transparent)]
    InvalidTtl(#[from] InvalidTtl),
    /// The number is not a fencing token.
    #[error(transparent)]
    InvalidToken(#[from] InvalidToken),
    /// The text is not an exported lease.
    #[error(transparent)]
    InvalidLease(#[from] InvalidLease),
    /// The URL names no backend that can be used.
    #[error("{message}")]
    Config {
        /// What is wrong, and what to do.
        message: String,
    },
    /// The lock is held by another, and the request would not wait.
    #[error("lock \"{name}\" was not acquired: {contention}")]
    NotAcquired {
        /// The lock.
        name: LockName,
        /// What is known of the others.
        contention: Contention,
    },
    /// The lock did not become free within the wait.
    #[error("lock \"{name}\" was not acquired within {waited:.1?}{}", last_seen(.contention))]
    Timeout {
        /// The lock.
        name: LockName,
        /// How long it was waited for.
        waited: Duration,
        /// What was last known of the others.
        contention: Option<Contention>,
    },
    /// The hold is over, though nobody released it. It cannot be had back: acquire the lock anew.
    #[error("lock \"{name}\" is lost: {reason}")]
    Lost {
        /// The lock.
        name: LockName,
        /// How the loss was noticed.
        reason: LostReason,
    },
    /// The hold is under a guard of this client already. Use that guard, or detach it first.
    #[error(
        "lock \"{name}\" is held under another guard of this client: use that one, or detach it first"
    )]
    AlreadyAttached {
        /// The lock.
        name: LockName,
    },
    /// The holder was evicted, and the fence of its resource could not be advanced past its token: it
    /// may write until the next holder has advanced the fence.
    #[error("the holder of lock \"{name}\" is evicted, but the fence does not keep it out yet")]
    Unfenced {
        /// The lock.
        name: LockName,
        /// What the fence said.
        source: FenceError,
    },
    /// The client was shut down.
    #[error("lock \"{name}\" cannot be acquired: the client was shut down")]
    Closed {
        /// The lock.
        name: LockName,
    },
    /// The backend could not be reached, or refused.
    #[error("{}", during(.operation, .name))]
    Backend {
        /// What we were doing.
        operation: &'static str,
        /// To which lock, where it was one.
        name: Option<LockName>,
        /// What the backend said.
        source: BackendError,
    },
}

impl LockError {
    /// The backend did not do what `operation` says, to the lock called `name` if it was about one.
    pub(crate) fn backend(
        operation: &'static str,
        name: Option<&LockName>,
        source: BackendError,
    ) -> Self {
        Self::Backend { operation, name: name.cloned(), source }
    }
}

fn last_seen(contention: &Option<Contention>) -> String {
    contention.as_ref().map(|seen| format!(": {seen}")).unwrap_or_default()
}

fn during(operation: &str, name: &Option<LockName>) -> String {
    match name {
        Some(name) => format!("cannot {operation} lock \"{name}\""),
        None => format!("cannot {operation}"),
    }
}
