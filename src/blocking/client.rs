//! A client whose calls block.

use std::sync::Arc;

use lock_core::{Finished, LockError, LockRequest};

use super::guard::LockGuard;
use super::runtime::Runtime;

/// Connects to the locks at `url`: see [`leasehold::connect`](crate::connect()).
///
/// [`LockClient::open`] takes options and a [`Connector`](crate::Connector).
///
/// # Errors
/// As [`leasehold::connect`](crate::connect()), and [`LockError::Config`] if the system refuses a thread.
///
/// # Panics
/// [Within an async runtime](crate::blocking#within-an-async-runtime).
pub fn connect(url: &str) -> Result<LockClient, LockError> {
    LockClient::open(crate::connect(url))
}

/// Acquires locks for threads without async, renews them while they are held, and releases dropped guards.
///
/// A client is cheap to clone; clones share everything. Make one for each process and backend, and share it among
/// all threads. The [module](crate::blocking) describes its thread.
#[derive(Clone, Debug)]
pub struct LockClient {
    runtime: Arc<Runtime>,
}

impl LockClient {
    /// Wraps the async client that `open` returns. `open` runs on the runtime of the new client.
    ///
    /// ```
    /// # fn main() -> Result<(), leasehold::LockError> {
    /// use std::time::Duration;
    /// use leasehold::{ClientOptions, blocking};
    ///
    /// let options = ClientOptions::new().wait(Duration::from_secs(2)).label("web-3");
    /// let locks = blocking::LockClient::open(leasehold::connect_with("memory:", options))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The error of `open`, and [`LockError::Config`] if the system refuses a thread.
    ///
    /// # Panics
    /// [Within an async runtime](crate::blocking#within-an-async-runtime).
    pub fn open(
        open: impl Future<Output = Result<crate::LockClient, LockError>>,
    ) -> Result<Self, LockError> {
        Ok(Self { runtime: Arc::new(Runtime::start(open)?) })
    }

    /// Acquires a lock; blocks until this caller's turn. See
    /// [`leasehold::LockClient::acquire`](crate::LockClient::acquire) for requests, and for the longest time that
    /// it takes.
    ///
    /// # Errors
    /// As [`leasehold::LockClient::acquire`](crate::LockClient::acquire).
    ///
    /// # Panics
    /// [Within an async runtime](crate::blocking#within-an-async-runtime).
    pub fn acquire(&self, request: impl Into<LockRequest>) -> Result<LockGuard, LockError> {
        let guard = self.runtime.block_on(self.runtime.client.acquire(request))?;
        Ok(LockGuard::new(guard, self.runtime.clone()))
    }

    /// Acquires a lock if it is free; `None` if another holds it. Blocks for one round trip, and at most for one
    /// [request time-out](crate::ClientOptions::request_timeout).
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but for `NotAcquired`.
    ///
    /// # Panics
    /// [Within an async runtime](crate::blocking#within-an-async-runtime).
    pub fn try_acquire(
        &self,
        request: impl Into<LockRequest>,
    ) -> Result<Option<LockGuard>, LockError> {
        let guard = self.runtime.block_on(self.runtime.client.try_acquire(request))?;
        Ok(guard.map(|guard| LockGuard::new(guard, self.runtime.clone())))
    }

    /// Acquires a lock, runs `work` under it, and ends the hold (C47).
    ///
    /// The work runs on this thread, to its end. The result has its value, and separately the loss of the hold,
    /// if it was lost. If the work panics, the lock is released.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); then the work did not begin.
    ///
    /// # Panics
    /// If `work` does, and [within an async runtime](crate::blocking#within-an-async-runtime).
    pub fn with<T>(
        &self,
        request: impl Into<LockRequest>,
        work: impl FnOnce(&LockGuard) -> T,
    ) -> Result<Finished<T>, LockError> {
        Ok(self.acquire(request)?.finish(work))
    }

    /// Runs `work` under a lock if it is free, and ends the hold; `None` if another holds the lock, and then the
    /// work did not begin. Otherwise like [`with`](Self::with).
    ///
    /// # Errors
    /// As [`with`](Self::with), but for `NotAcquired`.
    ///
    /// # Panics
    /// As [`with`](Self::with).
    pub fn try_with<T>(
        &self,
        request: impl Into<LockRequest>,
        work: impl FnOnce(&LockGuard) -> T,
    ) -> Result<Option<Finished<T>>, LockError> {
        Ok(self.try_acquire(request)?.map(|guard| guard.finish(work)))
    }

    /// Blocks until `ask` ends: for all other methods of the [async client](crate::LockClient).
    ///
    /// ```
    /// # fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::blocking::connect("memory:")?;
    /// let held = locks.block_on(async |locks| locks.admin().list("", 10).await)?;
    /// assert!(held.is_empty());
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// [Within an async runtime](crate::blocking#within-an-async-runtime).
    pub fn block_on<T>(&self, ask: impl AsyncFnOnce(&crate::LockClient) -> T) -> T {
        self.runtime.block_on(ask(&self.runtime.client))
    }

    /// Releases all holds, and blocks until the server has confirmed it, or until the TTLs have ended the holds.
    /// See [`leasehold::LockClient::shutdown`](crate::LockClient::shutdown).
    ///
    /// # Panics
    /// [Within an async runtime](crate::blocking#within-an-async-runtime).
    pub fn shutdown(&self) {
        self.runtime.block_on(self.runtime.client.shutdown());
    }
}
