//! What an application holds: it makes guards.

use std::sync::Arc;

use crate::backend::DistributedLock;
use crate::engine::{Acquisition, ClientOptions, Shared};
use crate::examination;
use crate::fence::Fence;
use crate::guard::LockGuard;
use crate::model::{
    Capabilities, FenceError, Finding, Holder, Lease, LockError, LockName, LockRequest, LockState,
    Wait, Whom,
};
use crate::reentrance;

/// What came of work under a lock: see [`LockClient::with`].
#[derive(Debug)]
#[must_use = "the lock may have been lost at the very end of the work"]
pub struct Finished<T> {
    /// What the work returned.
    pub value: T,
    /// Whether the hold lasted to the end: `Ok`, or [`LockError::Lost`]. Of a [run once](LockClient::once) also
    /// whether it is recorded, where it is to be.
    pub hold: Result<(), LockError>,
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

    /// What the backend can do.
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
    /// - [`Wait::AtMost`]: the wait, be it shorter or longer than a request time-out;
    /// - [`Wait::Forever`]: as long as others hold the lock. If the server does not answer, five and a half
    ///   request time-outs.
    ///
    /// # Errors
    /// - [`LockError::Invalid`] if the name, the TTL, the label or the permits are outside their limits: nothing
    ///   was sent.
    /// - [`LockError::NotALock`] at once, if the store has something else under the lock's name.
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
    /// use lock_core::{LockClient, LockRequest, MemoryBackend, Wait};
    ///
    /// let locks = LockClient::new(MemoryBackend::new());
    /// let request = LockRequest::new("report").wait(Wait::AtMost(Duration::from_secs(5)));
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
    /// one round trip. If the server is dead, silent or cannot be resolved, it takes one
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
        let guard = self.acquire(request).await?;
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

    /// Looks at a lock without touching it.
    ///
    /// # Errors
    /// - [`LockError::Invalid`]: nothing was sent.
    /// - [`LockError::NotALock`] if the store has something else under the lock's name.
    /// - [`LockError::Backend`] if the server cannot be reached or refuses.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockRequest, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let _guard = locks.acquire(LockRequest::new("nightly").label("host-7")).await?;
    /// let state = locks.inspect("nightly").await?;
    /// assert_eq!(state.holder().expect("it is held").label.as_str(), "host-7");
    /// # Ok(()) }
    /// ```
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<LockState, LockError> {
        let name = LockName::new(name)?;
        let shared = &self.shared;
        let answer = shared.request(async || shared.admin()?.inspect(&name).await).await;
        answer.map_err(|source| LockError::backend("inspect", Some(&name), source))
    }

    /// Lists the locks that are held and whose names start with `prefix`, sorted by name, at most
    /// `limit` of them. It may look at every lock of the store: it is for people, not for programs.
    ///
    /// # Errors
    /// [`LockError::Backend`] if the server cannot be reached or refuses.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockRequest, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let _guard = locks.acquire("job/nightly").await?;
    /// let held = locks.list("job/", 100).await?;
    /// assert_eq!(held[0].name.as_str(), "job/nightly");
    /// # Ok(()) }
    /// ```
    pub async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, LockError> {
        // In one try, since it may take many requests.
        let answer = self
            .shared
            .request_once(async { self.shared.admin()?.list(prefix, limit).await })
            .await;
        answer.map_err(|source| LockError::backend("list locks", None, source))
    }

    /// Ends the holds of all who have the lock, and lets the next waiters in; says whose they were, in the
    /// order of their grants; none if nobody held it.
    ///
    /// It is for operators. The holder is not asked, and may go on believing, and writing, until its next
    /// renewal. A [`Fence`] keeps it out from the moment the next holder has advanced it;
    /// [`evict_and_fence`](Self::evict_and_fence) advances it at once. It is tried once, because a repeat
    /// might end the hold of the next one.
    ///
    /// # Errors
    /// - [`LockError::Invalid`]: nothing was sent.
    /// - [`LockError::NotALock`] if the store has something else under the lock's name: it is left alone.
    /// - [`LockError::Backend`] if the server cannot be reached or refuses. Its
    ///   [outcome](crate::BackendError::outcome) says whether the hold may be over.
    ///
    /// # Cancel safety
    /// If the future is dropped, the hold may or may not be over.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockRequest, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let hung = locks.acquire("nightly").await?;
    /// let ended = locks.evict("nightly").await?;
    /// assert_eq!(ended[0].token, Some(hung.token()));
    /// // Whoever comes next has the greater token.
    /// assert!(locks.acquire("nightly").await?.token() > hung.token());
    /// # Ok(()) }
    /// ```
    pub async fn evict(&self, name: impl AsRef<str>) -> Result<Vec<Holder>, LockError> {
        self.evict_whom(&LockName::new(name)?, &Whom::All).await
    }

    /// Ends the hold of one owner, whose id begins with these 8 hex digits, as
    /// [`Holder::owner`] shows them; `None` if it does not hold the lock. Those who hold the lock beside it
    /// are left alone (C38).
    ///
    /// Otherwise it is as [`evict`](Self::evict).
    ///
    /// # Errors
    /// As [`evict`](Self::evict).
    ///
    /// # Cancel safety
    /// As [`evict`](Self::evict).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockRequest, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let hung = locks.acquire(LockRequest::new("licences").permits(1, 5)).await?;
    /// let works = locks.acquire(LockRequest::new("licences").permits(1, 5)).await?;
    /// let holders = locks.inspect("licences").await?.holders;
    /// let owner = holders[0].owner.as_deref().expect("one of ours");
    /// let ended = locks.evict_owner("licences", owner).await?.expect("it held a permit");
    /// assert_eq!(ended.token, Some(hung.token()));
    /// works.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn evict_owner(
        &self,
        name: impl AsRef<str>,
        owner: impl Into<String>,
    ) -> Result<Option<Holder>, LockError> {
        let whom = Whom::Owner(owner.into());
        Ok(self.evict_whom(&LockName::new(name)?, &whom).await?.pop())
    }

    async fn evict_whom(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, LockError> {
        let answer =
            self.shared.request_once(async { self.shared.admin()?.evict(name, whom).await }).await;
        answer.map_err(|source| LockError::backend("evict the holder of", Some(name), source))
    }

    /// Ends the holds of all who have the lock, as [`evict`](Self::evict) does, and advances `fence` past their
    /// tokens (C46): so those who were thrown out are refused even before the next holder comes.
    ///
    /// A holder that is not one of ours has no token, and no fence knows it.
    ///
    /// # Errors
    /// - As [`evict`](Self::evict); the fence is as it was then.
    /// - [`LockError::Unfenced`] if the hold is over, and the fence could not be asked. Advance the fence
    ///   before you rely on it: evicting again ends the hold of the next one.
    ///
    /// # Cancel safety
    /// If the future is dropped, the hold may or may not be over, and the fence advanced or not.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{Fence, LockClient, LockRequest, MemoryFence, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let fence = MemoryFence::new();
    /// let hung = locks.acquire("nightly").await?;
    /// locks.evict_and_fence("nightly", &fence).await?;
    /// // Nobody has the lock now, and the old holder is kept out all the same.
    /// assert!(fence.advance(hung.token()).await.is_err());
    /// # Ok(()) }
    /// ```
    pub async fn evict_and_fence(
        &self,
        name: impl AsRef<str>,
        fence: &dyn Fence,
    ) -> Result<Vec<Holder>, LockError> {
        let name = LockName::new(name)?;
        let evicted = self.evict(&name).await?;
        if let Some(token) = evicted.iter().filter_map(|holder| holder.token).max() {
            match fence.advance(token.successor()).await {
                // A later holder was quicker.
                Ok(()) | Err(FenceError::Stale { .. }) => {}
                Err(source) => return Err(LockError::Unfenced { name, source }),
            }
        }
        Ok(evicted)
    }

    /// Looks at the live server for what endangers locks: settings, rights, its role, its clock.
    ///
    /// # Errors
    /// [`LockError::Backend`] if the server cannot be reached. What it refuses to show is a finding.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn doctor(&self) -> Result<Vec<Finding>, LockError> {
        let answer =
            self.shared.request_once(async { self.shared.admin()?.doctor("").await }).await;
        answer.map_err(|source| LockError::backend("examine the server", None, source))
    }

    /// Looks at one lock for what keeps it from being acquired (C49): something under its name that is no
    /// lock, or a holder without a TTL that is not ours.
    ///
    /// # Errors
    /// - [`LockError::Invalid`]: nothing was sent.
    /// - [`LockError::Backend`] if the server cannot be reached or refuses.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{Health, LockClient, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// for finding in locks.examine("nightly").await? {
    ///     assert_eq!(finding.health, Health::Good, "{finding}");
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn examine(&self, name: impl AsRef<str>) -> Result<Vec<Finding>, LockError> {
        examination::finding(self.inspect(name).await).map(|finding| vec![finding])
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
