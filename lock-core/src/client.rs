//! The client of an application: makes guards.

use std::sync::Arc;

use crate::admin::Admin;
use crate::backend::DistributedLock;
use crate::engine::{Acquisition, ClientOptions, Shared, Store};
use crate::guard::LockGuard;
use crate::model::{Capabilities, Lease, LockError, LockRequest, Wait};
use crate::reentrance;

/// Result of work under a lock: see [`LockClient::with`].
#[derive(Debug)]
#[must_use = "the lock may have been lost at the very end of the work"]
pub struct Finished<T> {
    /// The work's own value.
    pub value: T,
    /// `Ok` if the hold lasted to the end, else [`LockError::Lost`]. After a [run once](LockClient::once) it is also
    /// an error if the run could not be recorded.
    pub hold: Result<(), LockError>,
}

impl<T, E> Finished<Result<T, E>> {
    /// Returns the value of work that may fail, if it succeeded and the hold lasted to the end.
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
    /// Returns the value, if the hold lasted to the end.
    ///
    /// # Errors
    /// [`LockError::Lost`] if the hold did not last. Use it where the value is then of no use.
    pub fn into_value(self) -> Result<T, LockError> {
        self.hold.map(|()| self.value)
    }
}

/// Acquires locks, renews them while they are held, and releases dropped ones.
///
/// A client is cheap to clone; clones share everything. Make one for a process and a backend: its
/// waiters for one lock share one place on the server, and its renewals go in batches. Its two
/// tasks, the renewer and the janitor, start with the first acquisition on the runtime that runs it,
/// and end with the last clone and guard.
///
/// # Runtime
/// The futures of this crate need a Tokio runtime with I/O and time. Outside of one, an acquisition fails with
/// [`LockError::RuntimeStopped`], and other futures panic, as Tokio's own do. A guard can be dropped anywhere.
/// [`ClientOptions::runtime`] sets the runtime of the two tasks.
///
/// # Fork
/// A client belongs to the process that made it. A fork of that process has copies of the client and its guards, and
/// none of the threads that renew; its connections are those of the first process. So in a fork each call fails at once,
/// with an error that says so, no guard is held, and a drop does nothing. The first process goes on holding its locks.
/// Make the backend and the client after the fork, in each process. A program that forks while a call is under way must
/// not poll that call in the fork.
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

    /// A client of a backend that is shared already, such as one from `leasehold::backend(url)`.
    pub fn from_arc(backend: Arc<dyn DistributedLock>, options: ClientOptions) -> Self {
        Self { shared: Arc::new(Shared::new(backend, options)) }
    }

    /// Returns the store of this client.
    pub(crate) fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Returns the request, with the defaults of this client for its unset parts.
    pub(crate) fn complete(&self, request: LockRequest) -> LockRequest {
        self.store().options.complete(request)
    }

    /// Returns the capabilities of the backend.
    pub fn capabilities(&self) -> Capabilities {
        self.store().backend.capabilities()
    }

    /// Acquires a lock under a guard that renews it.
    ///
    /// Takes a name, or a [`LockRequest`] with a wait and a TTL. Locks are not re-entrant by themselves: a task that
    /// asks again for a lock that it holds waits for itself, unless both requests have one
    /// [`Reentrance`](crate::Reentrance). Tasks of one client are served first come, first served. The backend's
    /// [`Capabilities`] tell if clients are too.
    ///
    /// # How long it takes
    /// The longest times, even if the server is dead, silent or cannot be resolved (C17, and 100 ms more):
    ///
    /// - [`Wait::Never`], and a wait of zero: one
    ///   [request time-out](crate::ClientOptions::request_timeout), 2 s by default, retries included;
    /// - [`Wait::AtMost`] and [`Wait::Until`]: the wait, even if it is shorter than a request time-out;
    /// - [`Wait::Forever`]: as long as others hold the lock. If the server does not answer, five and a half
    ///   request time-outs.
    ///
    /// # Errors
    /// - [`LockError::Invalid`] if the name, the TTL, the label or the permits are outside their limits: nothing
    ///   was sent.
    /// - [`LockError::NotALock`] at once, if the store has something else under the lock's name.
    /// - [`LockError::Conflict`] if it is held with another number of permits and the request does not wait.
    /// - [`LockError::RuntimeStopped`] if no task would renew it.
    /// - [`LockError::NotAcquired`] if it is held and the request does not wait.
    /// - [`LockError::Timeout`] if it did not become free within the wait.
    /// - [`LockError::Backend`] if the server cannot be reached or refuses. An endless wait lasts through an outage
    ///   of five request time-outs.
    /// - [`LockError::Closed`] after [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock is not held: a grant or a place in the queue is withdrawn in the
    /// background, as soon as the server answers. A new call begins anew, at the end of the queue: in a loop of `select!`,
    /// pin the future outside of the loop.
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
            // On the heap, since it is rare and as large as the rest.
            return Box::pin(reentrance::acquire(&self.shared, me, &request)).await;
        }
        let mut acquisition = Acquisition::new(self.shared.clone(), request.claim()?)?;
        let granted = acquisition.run(&request).await?;
        Ok(LockGuard::new(self.shared.clone(), acquisition.acquired(granted)))
    }

    /// Acquires a lock if it is free: `None` if another holds it.
    ///
    /// Does the same as [`acquire`](Self::acquire) with [`Wait::Never`], for callers that expect "no" as an answer. It takes one
    /// round trip, or up to two if other tasks of this client try the same lock: one request at a time serves all
    /// tries that began before it was sent (C26). If the server is dead, silent or cannot be resolved, it tries
    /// again, for at most one [request time-out](crate::ClientOptions::request_timeout) (C17), 2 s by default. Set a
    /// shorter one if that is too long for your caller.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), without `NotAcquired`.
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

    /// Acquires a lock, runs `work` under it, and ends the hold: the method for most programs (C47).
    ///
    /// The work receives the guard, for its token. It is dropped if the lock is lost ([`LockGuard::run`]). Work that
    /// has ended never becomes an error: its value is returned, with the end of the hold beside it.
    ///
    /// # Errors
    /// - As [`acquire`](Self::acquire): the work did not begin.
    /// - [`LockError::Lost`] if the lock was lost before the work ended, and the work was dropped. Its effects until
    ///   then stay: let the resource check the token.
    ///
    /// # Cancel safety
    /// If the future is dropped, the work is dropped, and the lock is released in the background.
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

    /// Runs `work` under a lock if it is free, and ends the hold. `None` if another holds it; the work did not begin
    /// then. Otherwise it is as [`with`](Self::with).
    ///
    /// # Errors
    /// As [`with`](Self::with), without `NotAcquired`.
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

    /// Puts a lease under a guard again, after the server has confirmed that it is still held.
    ///
    /// The lease may come from [`LockGuard::detach`] or, from another process, from
    /// [`Lease::import`]. It keeps its token.
    ///
    /// # Errors
    /// - [`LockError::Lost`] if the hold is over, also by its [bound](LockRequest::max_hold), or an earlier guard of the
    ///   lease is giving it back.
    /// - [`LockError::Invalid`] if the TTL of the lease is not longer than the [drift](crate::ClientOptions::drift) of this
    ///   client. Nothing was sent.
    /// - [`LockError::AlreadyAttached`] if another guard of this client holds it, or another call attaches it. Two
    ///   **processes** that attach one lease do not notice each other: one may release the hold while the other believes
    ///   in it. Hand a lease to one process only.
    /// - [`LockError::Backend`] if the server cannot be reached or refuses.
    /// - [`LockError::Closed`] after [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    /// If the future is dropped or fails, the hold stays as it was, or lasts its TTL from then. Unless it is
    /// attached, it expires.
    pub async fn attach(&self, lease: Lease) -> Result<LockGuard, LockError> {
        let attached = self.shared.attach(lease).await?;
        Ok(LockGuard::new(self.shared.clone(), attached))
    }

    /// Returns the interface for operators and tools: inspection of locks and servers, and eviction.
    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
    }

    /// Ends all holds of this client, and waits until the server has confirmed it, or until their TTLs have ended
    /// them. Acquisitions in progress end with [`LockError::Closed`], and no lock can be acquired afterwards.
    /// Acquisitions that nobody polls delay this by at most a request time-out.
    ///
    /// Guards that are still alive see the loss with [`LostReason::Shutdown`](crate::LostReason::Shutdown).
    ///
    /// # Cancel safety
    /// If the future is dropped, the releases go on in the background.
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
