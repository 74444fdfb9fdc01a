//! What a backend answers.

use std::time::Duration;

use crate::model::{Contention, FencingToken, ServerTime};

/// What an attempt to acquire came to.
#[derive(Clone, Debug)]
pub enum Attempt {
    /// The claim holds the lock.
    Granted(Grant),
    /// Another holds it, or is before us in the queue.
    Busy(Contention),
}

/// A hold, as the server granted it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Grant {
    /// Greater than every earlier token of this lock.
    pub token: FencingToken,
    /// How long the server keeps it from the moment of the grant.
    pub ttl: Duration,
    /// When it was granted, on the server's clock, where the server told.
    pub at: Option<ServerTime>,
}

impl Grant {
    /// A grant of `token` for `ttl`.
    pub fn new(token: FencingToken, ttl: Duration) -> Self {
        Self { token, ttl, at: None }
    }

    /// The grant, made at `at` on the server's clock.
    #[must_use]
    pub fn at(self, at: ServerTime) -> Self {
        Self { at: Some(at), ..self }
    }
}

/// What an extension came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// The server keeps the lease for at least this long from now.
    Extended(Duration),
    /// The lock is not ours any more. This is final.
    Lost,
}

/// What a release came to (C14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The hold was ours, and is over.
    Released,
    /// There was no hold of ours to end: it had expired, or was ended by somebody else.
    NotHeld,
}
