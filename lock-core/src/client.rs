//! What an application holds: it makes guards, and owns everything that moves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::acquisition::Acquisition;
use crate::hold::Hold;
use crate::janitor::Janitor;
use crate::keeper::Keeper;
use crate::local_queue::LocalQueue;
use crate::telemetry::Telemetry;
use crate::wait::Limits;
use crate::{
    Capabilities, Claim, Clock, DistributedLock, Drift, Extension, Finding, Holder, Lease,
    LockError, LockGuard, LockName, LockRequest, LockState, LostReason, Outcome, Release, Renewal,
    SystemClock, Ttl, Wait, retry,
};

const SHORTEST_TIMEOUT: Duration = Duration::from_millis(10);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// How a client treats its backend. The defaults suit most.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// How long a request may take, retries included; default 2 s. Waiting for a lock that others
    /// hold is not part of it. What is outside 10 ms to 1 h is brought into that range.
    pub request_timeout: Duration,
    /// What is taken off each TTL for the difference between clocks.
    pub drift: Drift,
    /// Where the holder reads the time; another one is for tests.
    pub clock: Arc<dyn Clock>,
    /// What metrics show of a lock's name, as the label `group`; default "all". The names of a
    /// service may be without number, and metrics bear only a few values of a label.
    #[cfg(feature = "metrics")]
    pub metric_group: fn(&LockName) -> &'static str,
}

impl Default for ClientOptions {
    fn default() -> Self {
        let Limits { request_timeout, drift } = Limits::default();
        Self {
            request_timeout,
            drift,
            clock: Arc::new(SystemClock),
            #[cfg(feature = "metrics")]
            metric_group: |_| "all",
        }
    }
}

/// Acquires locks, renews them while they are held, and gives back what was dropped.
///
/// A client is cheap to clone; clones share everything. Make one for a process and a backend: its
/// waiters for one lock share one place on the server, and its renewals go in batches. Its two
/// tasks, the keeper and the janitor, start with the first acquisition on the runtime that runs it,
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
        Self { shared: Arc::new(Shared::new(Arc::new(backend), options)) }
    }

    /// What the backend can do.
    pub fn capabilities(&self) -> Capabilities {
        self.shared.backend.capabilities()
    }

    /// Acquires a lock, and holds it under a guard that renews it.
    ///
    /// Takes a name, or a [`LockRequest`] that says how long to wait and for which TTL. Locks are
    /// not re-entrant: a task that asks again for what it holds waits for itself. Tasks of one
    /// client are served first come, first served among themselves; clients are where the backend's
    /// [`Capabilities`] say so.
    ///
    /// # Errors
    /// - [`LockError::InvalidName`], [`LockError::InvalidTtl`], [`LockError::InvalidLabel`]: nothing
    ///   was sent.
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
    /// use lock_core::{LockClient, LockRequest, MemoryLock, Wait};
    ///
    /// let locks = LockClient::new(MemoryLock::new());
    /// let request = LockRequest::new("report").wait(Wait::AtMost(Duration::from_secs(5)));
    /// let guard = locks.acquire(request).await?;
    /// assert!(guard.is_held());
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self, request: impl Into<LockRequest>) -> Result<LockGuard, LockError> {
        let request = request.into();
        let acquisition = Acquisition::new(self.shared.clone(), request.claim()?)?;
        acquisition.run(&request).await
    }

    /// Acquires a lock if it is free: `None` if another holds it.
    ///
    /// It is [`acquire`](Self::acquire) with [`Wait::No`], for callers to whom "no" is an answer.
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
        match self.acquire(request.into().wait(Wait::No)).await {
            Ok(guard) => Ok(Some(guard)),
            Err(LockError::NotAcquired { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts a lease under a guard again, after proving with the server that it is still held.
    ///
    /// The lease may come from [`LockGuard::detach`] or, from another process, from
    /// [`Lease::import`]. It keeps its token.
    ///
    /// # Errors
    /// - [`LockError::Lost`] if the hold is over.
    /// - [`LockError::Backend`] if the server cannot be reached or refuses.
    /// - [`LockError::Closed`] after [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    /// If the future is dropped the hold stays as it was: it expires unless it is attached.
    pub async fn attach(&self, lease: Lease) -> Result<LockGuard, LockError> {
        self.shared.admit(&lease.name)?;
        let (name, ttl) = (lease.name.clone(), lease.ttl);
        match self.shared.extend(lease, ttl).await? {
            Some(lease) if self.shared.has_expired(&lease) => {
                Err(LockError::Lost { name, reason: LostReason::Expired })
            }
            Some(lease) => self.shared.clone().guard(lease, None, None),
            None => Err(LockError::Lost { name, reason: LostReason::Evicted }),
        }
    }

    /// Looks at a lock without touching it.
    ///
    /// # Errors
    /// - [`LockError::InvalidName`]: nothing was sent.
    /// - [`LockError::Backend`] if the server cannot be reached or refuses.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockRequest, MemoryLock};
    /// # let locks = LockClient::new(MemoryLock::new());
    /// let _guard = locks.acquire(LockRequest::new("nightly").label("host-7")).await?;
    /// let state = locks.inspect("nightly").await?;
    /// assert_eq!(state.holder.expect("it is held").label.as_str(), "host-7");
    /// # Ok(()) }
    /// ```
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<LockState, LockError> {
        let name = LockName::new(name)?;
        let shared = &self.shared;
        let answer = shared.ask(|| shared.backend.inspect(&name)).await;
        answer.map_err(|source| failed("inspect", Some(&name), source))
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
    /// # use lock_core::{LockClient, LockRequest, MemoryLock};
    /// # let locks = LockClient::new(MemoryLock::new());
    /// let _guard = locks.acquire("job/nightly").await?;
    /// let held = locks.list("job/", 100).await?;
    /// assert_eq!(held[0].name.as_str(), "job/nightly");
    /// # Ok(()) }
    /// ```
    pub async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, LockError> {
        // In one try, since it may take many requests.
        let answer = self.shared.ask_once(self.shared.backend.list(prefix, limit)).await;
        answer.map_err(|source| failed("list locks", None, source))
    }

    /// Ends the hold of whoever has the lock, and lets the next waiter in; says whose it was, `None`
    /// if nobody held it.
    ///
    /// It is for operators. The holder is not asked, and may go on believing until its next renewal:
    /// only a [`Fence`](crate::Fence) keeps it from writing meanwhile. It is tried once, because a
    /// repeat might end the hold of the next one.
    ///
    /// # Errors
    /// - [`LockError::InvalidName`]: nothing was sent.
    /// - [`LockError::Backend`] if the server cannot be reached or refuses. Its
    ///   [outcome](crate::BackendError::outcome) says whether the hold may be over.
    ///
    /// # Cancel safety
    /// If the future is dropped, the hold may or may not be over.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockRequest, MemoryLock};
    /// # let locks = LockClient::new(MemoryLock::new());
    /// let hung = locks.acquire("nightly").await?;
    /// let ended = locks.evict("nightly").await?.expect("it was held");
    /// assert_eq!(ended.token, Some(hung.token()));
    /// // Whoever comes next has the greater token.
    /// assert!(locks.acquire("nightly").await?.token() > hung.token());
    /// # Ok(()) }
    /// ```
    pub async fn evict(&self, name: impl AsRef<str>) -> Result<Option<Holder>, LockError> {
        let name = LockName::new(name)?;
        let answer = self.shared.ask_once(self.shared.backend.evict(&name)).await;
        answer.map_err(|source| failed("evict the holder of", Some(&name), source))
    }

    /// Looks at the live server for what endangers locks: settings, rights, its role, its clock.
    ///
    /// # Errors
    /// [`LockError::Backend`] if the server cannot be reached. What it refuses to show is a finding.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn doctor(&self) -> Result<Vec<Finding>, LockError> {
        let answer = self.shared.ask_once(self.shared.backend.doctor()).await;
        answer.map_err(|source| failed("examine the server", None, source))
    }

    /// Gives everything back: ends all holds of this client and waits until the server knows, or
    /// until their TTLs have ended them. Acquisitions under way end with [`LockError::Closed`], and no
    /// lock can be acquired afterwards. Those that nobody polls are waited for no longer than a
    /// request time-out.
    ///
    /// Guards that are still alive see the loss with [`LostReason::Shutdown`].
    ///
    /// # Cancel safety
    /// If the future is dropped, giving back goes on in the background.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockRequest, MemoryLock};
    /// # let locks = LockClient::new(MemoryLock::new());
    /// let guard = locks.acquire("nightly").await?;
    /// locks.shutdown().await;
    /// assert!(!guard.is_held());
    /// # Ok(()) }
    /// ```
    pub async fn shutdown(&self) {
        self.shared.closed.send_replace(true);
        self.shared.ensure_tasks();
        for hold in self.shared.keeper.forget_all() {
            let lost_before = hold.lost_reason();
            hold.end(LostReason::Shutdown);
            if lost_before != Some(LostReason::Evicted) {
                self.shared.janitor.give_back(&hold.lease());
            }
        }
        self.shared.janitor.finish(self.shared.options.request_timeout).await;
    }
}

fn failed(
    operation: &'static str,
    name: Option<&LockName>,
    source: crate::BackendError,
) -> LockError {
    LockError::Backend { operation, name: name.cloned(), source }
}

/// What the clones and guards of one client share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn DistributedLock>,
    pub(crate) options: ClientOptions,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) janitor: Arc<Janitor>,
    pub(crate) local_queue: LocalQueue,
    pub(crate) telemetry: Arc<Telemetry>,
    tasks: Mutex<Option<Tasks>>,
    pub(crate) closed: watch::Sender<bool>,
}

#[derive(Debug)]
struct Tasks {
    keeper: JoinHandle<()>,
    janitor: JoinHandle<()>,
}

impl Shared {
    fn new(backend: Arc<dyn DistributedLock>, mut options: ClientOptions) -> Self {
        options.request_timeout = options.request_timeout.clamp(SHORTEST_TIMEOUT, LONGEST_TIMEOUT);
        let keeper = Arc::new(Keeper::new(backend.clone(), options.clock.clone()));
        let telemetry = Arc::new(Telemetry::new(backend.capabilities().backend, &options));
        let janitor = Arc::new(Janitor::new(backend.clone(), telemetry.clone()));
        let local_queue = LocalQueue::default();
        let (tasks, closed) = (Mutex::default(), watch::Sender::new(false));
        Self { backend, options, keeper, janitor, local_queue, telemetry, tasks, closed }
    }

    /// Lets an acquisition in, unless the client was shut down.
    pub(crate) fn admit(&self, name: &LockName) -> Result<(), LockError> {
        if self.is_closed() {
            return Err(LockError::Closed { name: name.clone() });
        }
        self.ensure_tasks();
        Ok(())
    }

    /// Starts the tasks, or starts them again if the runtime that ran them is gone.
    pub(crate) fn ensure_tasks(&self) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let running = |tasks: &Tasks| !tasks.keeper.is_finished() && !tasks.janitor.is_finished();
        if tasks.as_ref().is_some_and(running) {
            return;
        }
        if let Some(old) = tasks.take() {
            old.keeper.abort();
            old.janitor.abort();
        }
        *tasks = Some(Tasks {
            keeper: tokio::spawn(self.keeper.clone().run()),
            janitor: tokio::spawn(self.janitor.clone().run()),
        });
    }

    /// Puts a question to the backend within the request time-out.
    async fn ask<T, F>(&self, question: impl FnMut() -> F) -> Result<T, crate::BackendError>
    where
        F: Future<Output = Result<T, crate::BackendError>>,
    {
        let backend = self.backend.capabilities().backend;
        retry::within(self.options.request_timeout, backend, question).await
    }

    /// Puts a question to the backend that is not to be repeated.
    async fn ask_once<T>(
        &self,
        answer: impl Future<Output = Result<T, crate::BackendError>>,
    ) -> Result<T, crate::BackendError> {
        let end = Instant::now() + self.options.request_timeout;
        retry::try_once(end, self.backend.capabilities().backend, answer).await
    }

    /// Extends a lease on the server: the lease with its new deadline, or `None` if it is lost.
    async fn extend(&self, lease: Lease, ttl: Ttl) -> Result<Option<Lease>, LockError> {
        let renewal = Renewal::new(&lease, ttl);
        let asked = self.options.clock.now();
        match self.ask(|| self.backend.extend(&renewal)).await {
            Ok(Extension::Extended(granted)) => {
                let believed = granted.min(ttl.as_duration());
                let deadline = asked.after(self.options.drift.validity(believed));
                Ok(Some(Lease { ttl, granted, deadline, ..lease }))
            }
            Ok(Extension::Lost) => Ok(None),
            Err(source) => Err(failed("extend", Some(&lease.name), source)),
        }
    }

    /// Extends a hold on behalf of its guard.
    pub(crate) async fn extend_hold(&self, hold: &Hold, ttl: Ttl) -> Result<(), LockError> {
        hold.error_if_lost()?;
        self.ensure_tasks();
        let asked = self.options.clock.now();
        match self.extend(hold.lease(), ttl).await? {
            Some(lease) => hold.extended(asked, ttl, lease.granted),
            None => hold.end(LostReason::Evicted),
        }
        self.keeper.look();
        hold.error_if_lost()
    }

    /// Ends a hold on the server.
    ///
    /// A try whose reply was lost may have released it: then the next one finds nothing, and while
    /// the lease has not expired that is taken for ours.
    pub(crate) async fn release(&self, lease: &Lease) -> Result<Release, LockError> {
        let in_doubt = AtomicBool::new(false);
        let answer = self.ask(async || {
            // Until there is an answer, also if this try is given up.
            let lost_before = in_doubt.swap(true, Ordering::Relaxed);
            let answer = self.backend.release(&lease.name, lease.owner).await;
            let lost = matches!(&answer, Err(error) if error.outcome() == Outcome::Unknown);
            in_doubt.store(lost_before || lost, Ordering::Relaxed);
            match answer {
                Ok(Release::NotHeld) if lost_before && !self.has_expired(lease) => {
                    Ok(Release::Released)
                }
                answer => answer,
            }
        });
        answer.await.map_err(|source| failed("release", Some(&lease.name), source))
    }

    fn has_expired(&self, lease: &Lease) -> bool {
        self.options.clock.now().has_reached(lease.deadline)
    }

    /// Puts a fresh lease under a guard. A claim in doubt is withdrawn when the hold ends.
    pub(crate) fn guard(
        self: Arc<Self>,
        lease: Lease,
        max_hold: Option<Duration>,
        doubt: Option<Claim>,
    ) -> Result<LockGuard, LockError> {
        let name = lease.name.clone();
        let (options, telemetry) = (&self.options, self.telemetry.clone());
        let hold =
            Arc::new(Hold::new(lease, max_hold, options.clock.clone(), options.drift, telemetry));
        self.keeper.keep(hold.clone());
        let guard = LockGuard::new(self, hold, doubt);
        match guard.shared().is_closed() {
            // Shut down while we asked: the guard goes the way of all others.
            true => Err(LockError::Closed { name }),
            false => Ok(guard),
        }
    }

    fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.janitor.close();
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(tasks) = tasks {
            tasks.keeper.abort();
        }
    }
}
