//! A guard whose calls block.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{FencingToken, Finished, LockError, LockName, LostReason, LostSignal};
use tokio::time::timeout;

use super::runtime::Runtime;

/// A lock that a thread holds, or that threads pass on.
///
/// The client renews the hold for as long as the guard lives. The hold can be lost all the same: see
/// [`leasehold::LockGuard`](crate::LockGuard).
///
/// # Drop
/// Dropping the guard releases the lock soon, not at once. The drop does not block, except the
/// [last](crate::blocking#the-thread-behind-a-client) one of its client. [`release`](Self::release) returns once
/// the server has confirmed it.
#[derive(Debug)]
#[must_use = "a guard that is not kept gives the lock back at once: bind it to a name, and not to `_`"]
pub struct LockGuard {
    // Dropped before the runtime, which releases it.
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

    /// Returns the name of the lock.
    pub fn name(&self) -> &LockName {
        self.guard.name()
    }

    /// Returns the fencing token: greater than the token of every earlier grant of this lock, and constant for
    /// this hold.
    pub fn token(&self) -> FencingToken {
        self.guard.token()
    }

    /// Returns the slots of this hold: see [`leasehold::LockGuard::slots`](crate::LockGuard::slots).
    pub fn slots(&self) -> Vec<u16> {
        self.guard.slots()
    }

    /// Returns true while the lock is held, by the clock (C7). Does not block. The answer may be outdated at
    /// once.
    pub fn is_held(&self) -> bool {
        self.guard.is_held()
    }

    /// Returns the time until the holder must stop believing in its hold; zero once the lock is lost. Does not
    /// block.
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

    /// Returns a signal of the loss that other threads can read by [`LostSignal::is_lost`]; it outlives the
    /// guard.
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

    /// Ends the hold; fails if it was lost before (C47): see
    /// [`leasehold::LockGuard::release`](crate::LockGuard::release).
    ///
    /// # Errors
    /// [`LockError::Lost`] if the hold was over before this was called.
    ///
    /// # Panics
    /// [Within an async runtime](crate::blocking#within-an-async-runtime). The lock is released all the same.
    pub fn release(self) -> Result<(), LockError> {
        self.runtime.block_on(self.guard.release())
    }
}
