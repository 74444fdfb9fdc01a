//! A hold whose calls block.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{FencingToken, Finished, LockError, LockName, LostReason, LostSignal};
use tokio::time::timeout;

use super::runtime::Runtime;

/// A lock that is held by a thread, or handed from thread to thread.
///
/// The client renews it for as long as the guard lives, and the hold can be lost all the same: see
/// [`leasehold::LockGuard`](crate::LockGuard).
///
/// # Drop
/// Dropping the guard gives the lock back soon, not at once; the drop does not block, unless it is the
/// [last](crate::blocking#the-thread-behind-a-client) of its client. [`release`](Self::release) returns once the server
/// knows.
#[derive(Debug)]
#[must_use = "a guard that is not kept gives the lock back at once: bind it to a name, and not to `_`"]
pub struct LockGuard {
    // Dropped before the runtime, which gives it back.
    guard: crate::LockGuard,
    runtime: Arc<Runtime>,
}

impl LockGuard {
    pub(super) fn new(guard: crate::LockGuard, runtime: Arc<Runtime>) -> Self {
        Self { guard, runtime }
    }

    pub(super) fn finish<T>(self, work: impl FnOnce(&Self) -> T) -> Finished<T> {
        let value = work(&self);
        Finished { value, hold: self.release() }
    }

    /// The lock that is held.
    pub fn name(&self) -> &LockName {
        self.guard.name()
    }

    /// The fencing token: greater than that of every earlier grant of this lock, and constant for the life of this
    /// hold.
    pub fn token(&self) -> FencingToken {
        self.guard.token()
    }

    /// The slots of this hold: see [`leasehold::LockGuard::slots`](crate::LockGuard::slots).
    pub fn slots(&self) -> Vec<u16> {
        self.guard.slots()
    }

    /// Returns true while the lock is held, by the clock (C7). It does not block, and is out of date as soon as it is
    /// returned.
    pub fn is_held(&self) -> bool {
        self.guard.is_held()
    }

    /// Returns the time until the holder must stop believing; zero once the lock is lost. It does not block.
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Blocks until the lock is lost, and returns why; `None` if it is still held after `span`.
    ///
    /// # Panics
    /// [Within an async runtime](crate::blocking#within-an-async-runtime).
    pub fn lost(&self, span: Duration) -> Option<LostReason> {
        self.runtime.block_on(async { timeout(span, self.guard.lost()).await.ok() })
    }

    /// A signal of the loss that other threads can ask by [`LostSignal::is_lost`]; it outlives the guard.
    pub fn lost_signal(&self) -> LostSignal {
        self.guard.lost_signal()
    }

    /// Makes the hold last for at least `ttl` from now: see [`leasehold::LockGuard::extend`](crate::LockGuard::extend).
    ///
    /// # Errors
    /// As [`leasehold::LockGuard::extend`](crate::LockGuard::extend).
    ///
    /// # Panics
    /// [Within an async runtime](crate::blocking#within-an-async-runtime).
    pub fn extend(&self, ttl: Duration) -> Result<(), LockError> {
        self.runtime.block_on(self.guard.extend(ttl))
    }

    /// Ends the hold, and tells whether it lasted until now (C47): see
    /// [`leasehold::LockGuard::release`](crate::LockGuard::release).
    ///
    /// # Errors
    /// [`LockError::Lost`] if the hold was over before this was called.
    ///
    /// # Panics
    /// [Within an async runtime](crate::blocking#within-an-async-runtime). The lock is given back all the same.
    pub fn release(self) -> Result<(), LockError> {
        self.runtime.block_on(self.guard.release())
    }
}
