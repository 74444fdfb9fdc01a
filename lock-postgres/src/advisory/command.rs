//! What callers want of a claim, and what they are told.

use lock_core::backend::{Attempt, Extension, Release, WaiterHandle};
use lock_core::{BackendError, FencingToken, LostReason, Ttl};
use tokio::sync::oneshot;

/// How a claim stands, as far as its holder is concerned.
#[derive(Clone, Copy, Debug)]
pub(super) enum Standing {
    Pending,
    Held(FencingToken),
    Over(LostReason),
}

/// What came of a request of the claim.
#[derive(Debug)]
pub(super) enum Tried {
    Answered(Result<Attempt, BackendError>),
    /// It is in the server's queue, by the session that this process of the server serves.
    Waiting(i32),
}

/// What a caller wants of a claim that has begun.
pub(super) enum Command {
    Try(Option<WaiterHandle>, oneshot::Sender<Tried>),
    Extend(FencingToken, Ttl, oneshot::Sender<Result<Extension, BackendError>>),
    Release(oneshot::Sender<Result<Release, BackendError>>),
}
