//! The client of an application: makes guards.

use std::sync::Arc;

use crate::admin::Admin;
use crate::backend::DistributedLock;
use crate::engine::{Acquisition, ClientOptions, Shared};
use crate::guard::LockGuard;
use crate::model::{Capabilities, Lease, LockError, LockRequest, Wait};
use crate::reentrance;

/// Result of work under a lock: see [`LockClient::with`].
#[derive(Debug)]
#[must_use = "the lock may have been lost at the very end of the work"]
pub struct Finished<T> {
    /// The work's own value.
    pub value: T,
    /// `Ok` if the hold lasted to the end, else [`LockError::Lost`]. After a [run once](LockClient::once) also an error
    /// if the run could not be recorded.
    pub hold: Result<(), LockError>,
}

impl<T, E> Finished<Result<T, E>> {
    /// The value of work that may fail, if it did not fail and the hold lasted to the end.
    ///
    /// # Errors
    /// The work's own error, if it failed; else [`LockError::Lost`] if the hold did not last.
    pub fn into_result(self) -> Result<T, E>
    where
        E: From<LockError>,
    {
        let value = self.value?;
        self.hold?;
        Ok(value)
    }
}

impl<T> Finished<T> {
    /// The value, if the hold lasted to the end.
    ///
    /// # Errors
    /// [`LockError::Lost`] if it did not, where the value is of no use then.
    pub fn into_value(self) -> Result<T, LockError> {
        self.hold.map(|()| self.value)
    }
}

/// Acquires locks, renews them while they are held, and gives back what was dropped.
///
/// A client is cheap to clone; clones share everything. Make one for a process and a backend: its
/// waiters for one lock share one place on the server, and its renewals go in batches. Its two
/// tasks, the renewer and the janitor, start with the first acquisition on the runtime that runs it,
/// and end with the last clone and guard.
///
/// # Runtime
/// The futures of this crate need a Tokio runtime with I/O and time, and panic as Tokio's own do if they are
/// polled outside of one. Dropping a guard works everywhere. [`ClientOptions::runtime`] names the runtime of the two
/// tasks.
///
/// # Which backend
/// The client is the same for all. `leasehold::connect(url)` chooses one by URL;
/// [`LockClient::new`] takes any [`DistributedLock`].
#[derive(Clone, Debug)]
pub struct LockClient {
    pub(crate) shared: Arc<Shared>,
}

impl LockClient {
    /// A client of `backend` with default options.
    pub fn new(backend: impl DistributedLock) -> Self {
        Self::with_options(backend, ClientOptions::default())
    }

    /// A client of `backend`.
    pub fn with_options(backend: impl DistributedLock, options: ClientOptions) -> Self {
        Self::from_arc(Arc::new(backend), options)
    }

    /// A client of a backend that is shared already, such as the one that `leasehold::backend(url)` opens.
    pub fn from_arc(backend: Arc<dyn DistributedLock>, options: ClientOptions) -> Self {
        Self { shared: Arc::new(Shared::new(backend, options)) }
    }

    /// The request, with the defaults of this client for what it leaves open.
    pub(crate) fn complete(&self, request: LockRequest) -> LockRequest {
        self.shared.options.complete(request)
    }

    /// Returns the capabilities of the backend.
    pub fn capabilities(&self) -> Capabilities {
        self.shared.backend.capabilities()
    }

    /// Acquires a lock, and holds it under a guard that renews it.
    ///
    /// Takes a name, or a [`LockRequest`] that says how long to wait and for which TTL. Locks are
    /// not re-entrant by themselves: a task that asks again for what it holds waits for itself, unless both
    /// requests have one [`Reentrance`](crate::Reentrance). Tasks of one
    /// client are served first come, first served among themselves; clients are where the backend's
    /// [`Capabilities`] say so.
    ///
    /// # How long it takes
    /// At the most, whether the server is dead, silent or cannot be resolved (C17, and 100 ms more):
    ///
    /// - [`Wait::Never`], and a wait of zero: one
    ///   [request time-out](crate::ClientOptions::request_timeout), 2 s by default, retries included;
    /// - [`Wait::AtMost`] and [`Wait::Until`]: the wait, be it shorter or longer than a request time-out;
    /// - [`Wait::Forever`]: as long as others hold the lock. If the server does not answer, five and a half
    ///   request time-outs.
    ///
    /// # Errors
    /// - [`LockError::Invalid`] if the name, the TTL, the label or the permits are outside their limits: nothing
    ///   was sent.
    /// - [`LockError::NotALock`] at once, if the store has something else under the lock's name.
    /// - [`LockError::Conflict`] if it is held with another number of permits.
    /// - [`LockError::RuntimeStopped`] if nobody would renew it.
    /// - [`LockError::NotAcquired`] if it is held and the request does not wait.
    /// - [`LockError::Timeout`] if it did not become free within the wait.
    /// - [`LockError::Backend`] if the server cannot be reached or refuses. An endless wait bears
    ///   an outage of five request time-outs.
    /// - [`LockError::Closed`] after [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock is not held: whatever the server granted or queued is
    /// taken back in the background, as soon as the server answers.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// use std::time::Duration;
    /// use lock_core::{LockClient, LockRequest, MemoryBackend};
    ///
    /// let locks = LockClient::new(MemoryBackend::new());
    /// let request = LockRequest::new("report").wait(Duration::from_secs(5));
    /// let guard = locks.acquire(request).await?;
    /// assert!(guard.is_held());
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self, request: impl Into<LockRequest>) -> Result<LockGuard, LockError> {
        let request = self.complete(request.into());
        if let Some(me) = request.reentrance() {
            // On the heap: it is as large as the rest, and rare.
            return Box::pin(reentrance::acquire(&self.shared, me, &request)).await;
        }
        let mut acquisition = Acquisition::new(self.shared.clone(), request.claim()?)?;
        let granted = acquisition.run(&request).await?;
        Ok(LockGuard::new(self.shared.clone(), acquisition.acquired(granted)))
    }

    /// Acquires a lock if it is free: `None` if another holds it.
    ///
    /// It is [`acquire`](Self::acquire) with [`Wait::Never`], for callers to whom "no" is an answer. It takes
    /// one round trip, or up to two where others of this client try the same lock: one request at a time serves all that
    /// began before it was sent (C26). If the server is dead, silent or cannot be resolved, it takes one
    /// [request time-out](crate::ClientOptions::request_timeout) at the most (C17), 2 s by default, because it
    /// tries again until then. Choose a shorter one where that is too long for your caller.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but for `NotAcquired`.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(
        &self,
        request: impl Into<LockRequest>,
    ) -> Result<Option<LockGuard>, LockError> {
        match self.acquire(request.into().wait(Wait::Never)).await {
            Ok(guard) => Ok(Some(guard)),
            Err(LockError::NotAcquired { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Acquires a lock, runs `work` under it, and ends the hold: what most programs want (C47).
    ///
    /// The work is given the guard, for its token. It is dropped if the lock is lost ([`LockGuard::run`]).
    /// Work that has ended is never turned into an error: its value comes back, and apart from it how the
    /// hold ended.
    ///
    /// # Errors
    /// - As [`acquire`](Self::acquire): the work did not begin.
    /// - [`LockError::Lost`] if the lock was lost before the work ended, and the work was dropped. What it did until
    ///   then stands: let the resource check the token.
    ///
    /// # Cancel safety
    /// If the future is dropped, the work is dropped, and the lock is given back in the background.
    ///
    /// The work is an async closure, `async |held| …`. With `|held| async move { … }` the compiler asks for type
    /// annotations (E0282), or says that `AsyncFnOnce` is not general enough.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{Finished, LockClient, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let sold = locks.with("stock:42", async |held| format!("under token {}", held.token())).await?;
    /// if let Err(lost) = sold.hold {
    ///     println!("another may have sold at the same time: {lost}");
    /// }
    /// println!("sold {}", sold.value);
    /// # Ok(()) }
    /// ```
    pub async fn with<T>(
        &self,
        request: impl Into<LockRequest>,
        work: impl AsyncFnOnce(&LockGuard) -> T,
    ) -> Result<Finished<T>, LockError> {
        Self::finish(self.acquire(request).await?, work).await
    }

    /// Runs `work` under a lock if it is free, and ends the hold: `None` if another holds it, and then the work
    /// did not begin. Otherwise it is as [`with`](Self::with).
    ///
    /// # Errors
    /// As [`with`](Self::with), but for `NotAcquired`.
    ///
    /// # Cancel safety
    /// As [`with`](Self::with).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockError, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let swept = locks.try_with("sweep", async |_held| Ok::<_, LockError>(3)).await?;
    /// match swept {
    ///     Some(finished) => println!("swept {}", finished.into_result()?),
    ///     None => println!("another sweeps"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn try_with<T>(
        &self,
        request: impl Into<LockRequest>,
        work: impl AsyncFnOnce(&LockGuard) -> T,
    ) -> Result<Option<Finished<T>>, LockError> {
        match self.try_acquire(request).await? {
            Some(guard) => Self::finish(guard, work).await.map(Some),
            None => Ok(None),
        }
    }

    async fn finish<T>(
        guard: LockGuard,
        work: impl AsyncFnOnce(&LockGuard) -> T,
    ) -> Result<Finished<T>, LockError> {
        let value = guard.run_to_end(work(&guard)).await?;
        Ok(Finished { value, hold: guard.release().await })
    }

    /// Puts a lease under a guard again, after proving with the server that it is still held.
    ///
    /// The lease may come from [`LockGuard::detach`] or, from another process, from
    /// [`Lease::import`]. It keeps its token.
    ///
    /// # Errors
    /// - [`LockError::Lost`] if the hold is over.
    /// - [`LockError::AlreadyAttached`] if another guard of this client holds it. Two **processes** that
    ///   attach one lease are not told of each other: one may release what the other believes in. Hand a
    ///   lease to one only.
    /// - [`LockError::Backend`] if the server cannot be reached or refuses.
    /// - [`LockError::Closed`] after [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    /// If the future is dropped or fails, the hold stays as it was, or lasts its TTL from then: it expires
    /// unless it is attached.
    pub async fn attach(&self, lease: Lease) -> Result<LockGuard, LockError> {
        let attached = self.shared.attach(lease).await?;
        Ok(LockGuard::new(self.shared.clone(), attached))
    }

    /// For operators and tools: looks at locks and servers, and ends holds by force.
    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
    }

    /// Gives everything back: ends all holds of this client and waits until the server knows, or
    /// until their TTLs have ended them. Acquisitions under way end with [`LockError::Closed`], and no
    /// lock can be acquired afterwards. Those that nobody polls are waited for no longer than a
    /// request time-out.
    ///
    /// Guards that are still alive see the loss with [`LostReason::Shutdown`](crate::LostReason::Shutdown).
    ///
    /// # Cancel safety
    /// If the future is dropped, giving back goes on in the background.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockRequest, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let guard = locks.acquire("nightly").await?;
    /// locks.shutdown().await;
    /// assert!(!guard.is_held());
    /// # Ok(()) }
    /// ```
    pub async fn shutdown(&self) {
        self.shared.shutdown().await;
    }
}
