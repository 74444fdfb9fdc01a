//! Leases without a key: granted before they are needed, used again, and revoked when idle.
//!
//! A grant is a commit of its own. A lease that a released hold leaves behind serves the next hold of
//! the same TTL instead, after a keep-alive; one that nobody wants for a while is revoked. Grants and
//! revocations are carried out by one task, so that a caller who leaves cuts none of them short.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::LeaseGrantOptions;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use lock_core::BackendError;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::error::{BACKEND, is_lease_gone, lease_gone, sorted};
use crate::lease_id::LeaseId;
use crate::server::Server;

/// How long a lease without a key is kept for the next one that needs it. Less than half of the
/// shortest TTL there is, so that no spare lease has expired.
const KEPT_FOR: Duration = Duration::from_millis(900);

/// How many leases are kept at most.
const KEPT: usize = 256;

/// How long a revocation is tried. The server answers, or the lease ends by itself.
const REVOKE_LIMIT: Duration = Duration::from_secs(5);

/// How long the last revocations of a client may take that was dropped.
const FAREWELL: Duration = Duration::from_secs(1);

/// Grants leases, and ends those that are not needed.
pub(crate) struct Leases {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    server: Arc<Server>,
    /// The least TTL that the cluster grants, as far as we have seen, in seconds.
    least: AtomicI64,
    book: Mutex<Book>,
    changed: Notify,
}

#[derive(Default)]
struct Book {
    /// By their TTL in seconds, the oldest first.
    spare: HashMap<i64, Vec<(LeaseId, Instant)>>,
    wanted: Vec<(i64, Reply)>,
    condemned: Vec<LeaseId>,
    closed: bool,
}

type Reply = oneshot::Sender<Result<LeaseId, BackendError>>;

/// A lease without a key. It is given back when it is dropped, unless it was [used](Self::used).
pub(crate) struct Spare<'a> {
    leases: &'a Leases,
    id: LeaseId,
    /// Whether it was granted just now, so that it lasts for its TTL from now.
    pub(crate) is_new: bool,
    used: bool,
}

impl Spare<'_> {
    pub(crate) fn id(&self) -> LeaseId {
        self.id
    }

    /// The lease may be on a key from now on.
    pub(crate) fn used(&mut self) {
        self.used = true;
    }
}

impl Drop for Spare<'_> {
    fn drop(&mut self) {
        if !self.used {
            self.leases.give_back(self.id);
        }
    }
}

impl Leases {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        let least = AtomicI64::new(1);
        let shared = Shared { server, least, book: Mutex::default(), changed: Notify::new() };
        Self { shared: Arc::new(shared), task: Mutex::default() }
    }

    /// A lease of as many seconds: a spare one, or a new one.
    pub(crate) async fn take(&self, seconds: i64) -> Result<Spare<'_>, BackendError> {
        self.ensure_running();
        let seconds = seconds.max(self.shared.least.load(Ordering::Relaxed));
        if let Some(id) = self.shared.book().take(seconds) {
            return Ok(Spare { leases: self, id, is_new: false, used: false });
        }
        let (reply, answer) = oneshot::channel();
        self.shared.book().wanted.push((seconds, reply));
        self.shared.changed.notify_one();
        let id = answer.await.map_err(|_| lease_gone())??;
        Ok(Spare { leases: self, id, is_new: true, used: false })
    }

    /// A lease, where one is needed.
    pub(crate) async fn take_if(
        &self,
        needed: bool,
        seconds: i64,
    ) -> Result<Option<Spare<'_>>, BackendError> {
        match needed {
            true => self.take(seconds).await.map(Some),
            false => Ok(None),
        }
    }

    /// Takes a lease back that has no key, and to which no request on its way could give one.
    pub(crate) fn give_back(&self, id: LeaseId) {
        self.shared.give_back(id);
    }

    /// Revokes a lease, and with it its key, in the background.
    pub(crate) fn condemn(&self, id: LeaseId) {
        self.shared.book().condemned.push(id);
        self.shared.changed.notify_one();
    }

    /// Revokes a lease: afterwards no request can write a key with it.
    pub(crate) async fn revoke(&self, id: LeaseId) -> Result<(), BackendError> {
        self.shared.revoke(id).await
    }

    /// Lets a lease last for its TTL from now. That it does so is no proof that its key is there.
    pub(crate) async fn keep(&self, id: LeaseId) -> Result<(), BackendError> {
        let kept = |mut client: etcd_client::Client| async move {
            client.lease_keep_alive(id.get()).await
        };
        self.shared.server.ask(kept).await.map(drop)
    }

    /// How long the server keeps a lease unless it is renewed, at the most; `None` if it is gone.
    pub(crate) async fn left(&self, id: LeaseId) -> Result<Option<Duration>, BackendError> {
        let left = |mut client: etcd_client::Client| async move {
            client.lease_time_to_live(id.get(), None).await
        };
        let seconds = self.shared.server.ask(left).await?.ttl();
        // The server tells whole seconds, rounded down.
        Ok(u64::try_from(seconds).ok().map(|seconds| Duration::from_secs(seconds + 1)))
    }

    fn ensure_running(&self) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            *task = Some(tokio::spawn(self.shared.clone().run()));
        }
    }
}

/// The task ends by itself, once it has revoked what is left, or soon.
impl Drop for Leases {
    fn drop(&mut self) {
        self.shared.book().closed = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    async fn run(self: Arc<Self>) {
        let mut chores = FuturesUnordered::new();
        loop {
            chores.extend(self.chores());
            if self.book().closed {
                let _ = timeout(FAREWELL, async { while chores.next().await.is_some() {} }).await;
                return;
            }
            let idle_at = self.book().idle_at();
            tokio::select! {
                () = self.changed.notified() => {}
                Some(()) = chores.next() => {}
                () = sleep_until(idle_at) => {}
            }
        }
    }

    /// What is to be done now.
    fn chores(self: &Arc<Self>) -> Vec<BoxFuture<'static, ()>> {
        let mut book = self.book();
        book.condemn_idle(Instant::now());
        let mut chores: Vec<BoxFuture<'static, ()>> = Vec::new();
        for (seconds, reply) in std::mem::take(&mut book.wanted) {
            chores.push(Box::pin(self.clone().grant_to(seconds, reply)));
        }
        for id in std::mem::take(&mut book.condemned) {
            chores.push(Box::pin(self.clone().end(id)));
        }
        chores
    }

    /// Grants a lease, and keeps it if the one who wanted it has left.
    async fn grant_to(self: Arc<Self>, seconds: i64, reply: Reply) {
        let granted = self.grant(seconds).await;
        if let Err(Ok(unwanted)) = reply.send(granted) {
            self.give_back(unwanted);
        }
    }

    /// Grants a lease whose id tells its TTL. A cluster that grants no TTL as short as that is asked
    /// again for the least that it does grant.
    async fn grant(&self, seconds: i64) -> Result<LeaseId, BackendError> {
        let (id, granted) = self.ask_for(seconds).await?;
        if granted <= seconds {
            return Ok(id);
        }
        self.least.fetch_max(granted, Ordering::Relaxed);
        self.book().condemned.push(id);
        Ok(self.ask_for(granted).await?.0)
    }

    async fn ask_for(&self, seconds: i64) -> Result<(LeaseId, i64), BackendError> {
        let id = LeaseId::random(seconds);
        let options = LeaseGrantOptions::new().with_id(id.get());
        let grant = |mut client: etcd_client::Client| async move {
            client.lease_grant(seconds, Some(options)).await
        };
        Ok((id, self.server.ask(grant).await?.ttl()))
    }

    async fn end(self: Arc<Self>, id: LeaseId) {
        let give_up_at = Instant::now() + REVOKE_LIMIT;
        while let Err(error) = self.revoke(id).await
            && error.is_transient()
            && Instant::now() < give_up_at
        {
            tokio::time::sleep(REVOKE_LIMIT / 20).await;
        }
    }

    async fn revoke(&self, id: LeaseId) -> Result<(), BackendError> {
        let revoke =
            |mut client: etcd_client::Client| async move { client.lease_revoke(id.get()).await };
        match self.server.try_ask(revoke).await {
            Ok(_) => Ok(()),
            Err(error) if is_lease_gone(&error) => Ok(()),
            Err(error) => Err(sorted(error)),
        }
    }

    fn give_back(&self, id: LeaseId) {
        self.book().give_back(id, Instant::now());
        self.changed.notify_one();
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// The youngest spare lease of a TTL, so that the others can go.
    fn take(&mut self, seconds: i64) -> Option<LeaseId> {
        let (id, since) = self.spare.get_mut(&seconds)?.pop()?;
        if since.elapsed() < KEPT_FOR {
            return Some(id);
        }
        self.condemned.push(id);
        None
    }

    fn give_back(&mut self, id: LeaseId, now: Instant) {
        let kept: usize = self.spare.values().map(Vec::len).sum();
        if self.closed || kept >= KEPT {
            self.condemned.push(id);
        } else {
            self.spare.entry(id.seconds()).or_default().push((id, now));
        }
    }

    /// Condemns what nobody wanted for long enough; all of it after the end.
    fn condemn_idle(&mut self, now: Instant) {
        let idle = |since: Instant| self.closed || now >= since + KEPT_FOR;
        let mut condemned = Vec::new();
        for spare in self.spare.values_mut() {
            condemned.extend(spare.extract_if(.., |(_, since)| idle(*since)).map(|(id, _)| id));
        }
        self.spare.retain(|_, spare| !spare.is_empty());
        self.condemned.extend(condemned);
    }

    /// When the next lease has been idle for long enough.
    fn idle_at(&self) -> Instant {
        let oldest = self.spare.values().filter_map(|spare| spare.first()).map(|(_, since)| *since);
        oldest.min().unwrap_or_else(|| Instant::now() + KEPT_FOR * 1000) + KEPT_FOR
    }
}

impl std::fmt::Debug for Leases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leases").field("backend", &BACKEND).finish_non_exhaustive()
    }
}
