//! What can go wrong, sorted by what the caller can do about it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Contention, LockName, LostReason, MAX_LABEL_BYTES, MAX_NAME_BYTES};

/// A boxed error of a backend's own kind.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why an operation on a lock did not do what was asked.
///
/// Texts name the lock and the remedy. None holds an owner id or a password. A source is not
/// repeated in the text of the error that carries it; print the chain to see all of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The name is not 1 to 512 bytes of UTF-8 without control characters. Nothing was sent.
    #[error(
        "invalid lock name \"{name}\": {reason} (a name is 1 to {MAX_NAME_BYTES} bytes without control characters)"
    )]
    InvalidName {
        /// The start of the name, escaped.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The label is longer than 128 bytes or holds a control character. Nothing was sent.
    #[error(
        "invalid label \"{label}\": {reason} (a label is at most {MAX_LABEL_BYTES} bytes without control characters)"
    )]
    InvalidLabel {
        /// The start of the label, escaped.
        label: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The TTL is outside 10 ms to 24 h. Nothing was sent.
    #[error("invalid TTL {ttl:?}: choose 10 ms to 24 h")]
    InvalidTtl {
        /// The TTL that was asked for.
        ttl: Duration,
    },
    /// The number is not a fencing token.
    #[error("invalid fencing token {value:?}: a token is an integer from 1 to 2^53 - 1")]
    InvalidToken {
        /// What was to be a token.
        value: String,
    },
    /// The text is not an exported lease.
    #[error("not an exported lease: {reason}")]
    InvalidLease {
        /// What is wrong with it.
        reason: &'static str,
    },
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

fn last_seen(contention: &Option<Contention>) -> String {
    contention.as_ref().map(|seen| format!(": {seen}")).unwrap_or_default()
}

fn during(operation: &str, name: &Option<LockName>) -> String {
    match name {
        Some(name) => format!("cannot {operation} lock \"{name}\""),
        None => format!("cannot {operation}"),
    }
}

/// Whether a request that failed was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server did not carry it out, and will not.
    NotApplied,
    /// The server may have carried it out, or may do so later.
    Unknown,
}

/// What a backend says when it cannot answer.
///
/// It says whether the request [may have been carried out](BackendError::outcome) and whether
/// [a retry may help](BackendError::is_transient); the source is the client library's own error.
#[derive(Clone, Debug)]
pub struct BackendError {
    backend: &'static str,
    context: String,
    outcome: Outcome,
    transient: bool,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl BackendError {
    /// A failure for now: the server is away, busy or loading. A retry may help.
    pub fn transient(
        backend: &'static str,
        outcome: Outcome,
        context: impl Into<String>,
        source: impl Into<BoxError>,
    ) -> Self {
        Self { transient: true, ..Self::permanent(backend, outcome, context, source) }
    }

    /// A refusal: wrong password, missing rights, a key of another type. A retry will not help.
    pub fn permanent(
        backend: &'static str,
        outcome: Outcome,
        context: impl Into<String>,
        source: impl Into<BoxError>,
    ) -> Self {
        let (context, source) = (context.into(), Some(source.into().into()));
        Self { backend, context, outcome, transient: false, source }
    }

    /// No answer came within `limit`. The request may have been carried out.
    pub fn no_answer(backend: &'static str, limit: Duration) -> Self {
        let context = format!("no answer within {limit:?}");
        Self { backend, context, outcome: Outcome::Unknown, transient: true, source: None }
    }

    /// Which backend said so.
    pub fn backend(&self) -> &'static str {
        self.backend
    }

    /// Whether the request was carried out.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether the same request may succeed when it is sent again.
    pub fn is_transient(&self) -> bool {
        self.transient
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.backend, self.context)
    }
}

impl Error for BackendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
