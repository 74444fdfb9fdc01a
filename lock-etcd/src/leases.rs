//! Leases without a key: granted before they are needed, used again, and revoked when idle.
//!
//! A grant is a commit of its own. A lease that a released hold leaves behind serves the next hold of
//! the same TTL instead, after a keep-alive. A lease that nobody wants for a while is revoked. One task
//! carries out grants and revocations, so that a caller who leaves cuts none of them short.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{Client, LeaseGrantOptions};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use lock_core::{BackendError, Outcome};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::error::{BACKEND, classify, is_lease_gone, lease_gone};
use crate::lease_id::LeaseId;
use crate::server::Server;
use crate::stock::{Revocation, Stock};

/// A grant that takes longer is given up once nobody waits for it: its connection is suspect.
const ABANDON_GRANT_AFTER: Duration = Duration::from_secs(1);

/// How long a revocation is tried. The server answers, or the lease ends by itself.
const REVOKE_LIMIT: Duration = Duration::from_secs(5);

/// How long one try of it may take.
const REVOKE_TRY: Duration = Duration::from_secs(1);

/// How long the last revocations of a client may take that was dropped.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// Grants leases, and ends those that are not needed.
pub(crate) struct Leases {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    server: Arc<Server>,
    /// The least TTL that the cluster grants, as far as we have seen, in seconds.
    least: AtomicI64,
    stock: Mutex<Stock>,
    wanted: Mutex<Vec<(i64, Reply)>>,
    changed: Notify,
}

type Reply = oneshot::Sender<Result<LeaseId, BackendError>>;

/// A lease without a key. It is given back when it is dropped, unless it was [assigned](Self::assign).
pub(crate) struct SpareLease<'a> {
    leases: &'a Leases,
    id: LeaseId,
    /// Whether it was granted just now, so that it lasts for its TTL from now.
    pub(crate) is_new: bool,
    assigned: bool,
}

impl SpareLease<'_> {
    pub(crate) fn id(&self) -> LeaseId {
        self.id
    }

    /// The lease is a claim's from now on: a request may give it to a key.
    pub(crate) fn assign(mut self) {
        self.assigned = true;
    }
}

impl Drop for SpareLease<'_> {
    fn drop(&mut self) {
        if !self.assigned {
            self.leases.give_back([self.id]);
        }
    }
}

impl Leases {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        let shared = Shared {
            server,
            least: AtomicI64::new(1),
            stock: Mutex::default(),
            wanted: Mutex::default(),
            changed: Notify::new(),
        };
        Self { shared: Arc::new(shared), task: Mutex::default() }
    }

    /// A lease of as many seconds: a spare one, or a new one.
    pub(crate) async fn take(&self, seconds: i64) -> Result<SpareLease<'_>, BackendError> {
        let seconds = seconds.max(self.shared.least.load(Ordering::Relaxed));
        if let Some(id) = self.shared.stock().take(seconds) {
            return Ok(SpareLease { leases: self, id, is_new: false, assigned: false });
        }
        let (reply, answer) = oneshot::channel();
        self.shared.wanted().push((seconds, reply));
        self.wake();
        let id = answer.await.map_err(|_| lease_gone())??;
        Ok(SpareLease { leases: self, id, is_new: true, assigned: false })
    }

    /// A lease, where one is needed.
    pub(crate) async fn take_if(
        &self,
        needed: bool,
        seconds: i64,
    ) -> Result<Option<SpareLease<'_>>, BackendError> {
        match needed {
            true => self.take(seconds).await.map(Some),
            false => Ok(None),
        }
    }

    /// Takes leases back that have no key, and to which no request on its way could give one.
    pub(crate) fn give_back(&self, leases: impl IntoIterator<Item = LeaseId>) {
        let mut stock = self.shared.stock();
        leases.into_iter().for_each(|lease| stock.give_back(lease));
        drop(stock);
        self.wake();
    }

    /// Revokes leases, and with them their keys, in the background.
    pub(crate) fn revoke_later(&self, leases: impl IntoIterator<Item = LeaseId>) {
        let mut stock = self.shared.stock();
        leases.into_iter().for_each(|lease| stock.revoke_later(lease));
        drop(stock);
        self.wake();
    }

    /// Revokes a lease later that a key has left, if another client granted it.
    pub(crate) fn revoke_if_foreign(&self, id: Option<LeaseId>) {
        self.revoke_later(id.filter(|id| !self.shared.stock().knows(*id)));
    }

    /// Revokes a lease: afterwards no request can write a key with it.
    pub(crate) async fn revoke(&self, id: LeaseId) -> Result<(), BackendError> {
        self.shared.stock().gone(id);
        self.shared.revoke(id).await.map(drop)
    }

    /// Lets a lease last for its TTL from now, and says whether it is there. That it is, is no proof
    /// that its key is.
    pub(crate) async fn keep_alive(&self, id: LeaseId) -> Result<bool, BackendError> {
        let asked_at = Instant::now();
        let keep = |mut client: Client| async move { client.lease_keep_alive(id.get()).await };
        match self.shared.server.send(keep).await {
            Ok(_) => self.shared.stock().renewed(id, asked_at),
            Err(error) if is_lease_gone(&error) => {
                self.shared.stock().gone(id);
                return Ok(false);
            }
            Err(error) => return Err(classify(error)),
        }
        Ok(true)
    }

    /// How long the server keeps a lease unless it is renewed, at the most; `None` if it is gone.
    pub(crate) async fn left(&self, id: LeaseId) -> Result<Option<Duration>, BackendError> {
        let left =
            |mut client: Client| async move { client.lease_time_to_live(id.get(), None).await };
        let seconds = self.shared.server.request(left).await?.ttl();
        // The server tells whole seconds, rounded down.
        Ok(u64::try_from(seconds).ok().map(|seconds| Duration::from_secs(seconds + 1)))
    }

    /// Wakes the task that grants and revokes, or starts it. Outside of a runtime, where futures may
    /// be dropped, it is started by the next call.
    fn wake(&self) {
        self.shared.changed.notify_one();
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.as_ref().is_none_or(JoinHandle::is_finished)
            && let Ok(runtime) = Handle::try_current()
        {
            *task = Some(runtime.spawn(self.shared.clone().run()));
        }
    }
}

/// The task ends by itself, once it has revoked what is left, or soon.
impl Drop for Leases {
    fn drop(&mut self) {
        self.shared.stock().close();
        self.shared.changed.notify_one();
    }
}

impl Shared {
    async fn run(self: Arc<Self>) {
        let mut jobs = FuturesUnordered::new();
        while !self.stock().is_closed() {
            jobs.extend(self.jobs());
            let idle_at = self.stock().idle_at();
            tokio::select! {
                () = self.changed.notified() => {}
                Some(()) = jobs.next() => {}
                () = sleep_until(idle_at) => {}
            }
        }
        jobs.extend(self.jobs());
        // Nobody wants a grant that arrives now: it makes another job, its revocation.
        let last = async {
            while jobs.next().await.is_some() {
                jobs.extend(self.jobs());
            }
        };
        let _ = timeout(SHUTDOWN_GRACE, last).await;
    }

    /// What is to be done now.
    fn jobs(self: &Arc<Self>) -> Vec<BoxFuture<'static, ()>> {
        let mut jobs: Vec<BoxFuture<'static, ()>> = Vec::new();
        for (seconds, reply) in std::mem::take(&mut *self.wanted()) {
            jobs.push(Box::pin(self.clone().grant_to(seconds, reply)));
        }
        for revocation in self.stock().take_revocations() {
            jobs.push(Box::pin(self.clone().end(revocation)));
        }
        jobs
    }

    /// Grants a lease, and keeps it in stock if its caller has left. If the caller has left and the grant
    /// takes long, the grant is given up, and by that the connection becomes suspect.
    async fn grant_to(self: Arc<Self>, seconds: i64, mut reply: Reply) {
        let abandoned = async {
            sleep(ABANDON_GRANT_AFTER).await;
            reply.closed().await;
        };
        let granted = tokio::select! {
            granted = self.grant(seconds) => granted,
            () = abandoned => return,
        };
        if let Err(Ok(unwanted)) = reply.send(granted) {
            self.stock().give_back(unwanted);
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
        self.stock().revoke_later(id);
        Ok(self.ask_for(granted).await?.0)
    }

    async fn ask_for(&self, seconds: i64) -> Result<(LeaseId, i64), BackendError> {
        let (id, asked_at) = (LeaseId::random(seconds), Instant::now());
        let options = LeaseGrantOptions::new().with_id(id.get());
        let grant =
            |mut client: Client| async move { client.lease_grant(seconds, Some(options)).await };
        let mut pending = PendingGrant { shared: self, id, is_over: false };
        let answer = self.server.request(grant).await;
        let outcome = answer.as_ref().map_err(BackendError::outcome);
        pending.is_over = !matches!(outcome, Err(Outcome::Unknown));
        let granted = answer?.ttl();
        self.stock().granted(id, asked_at);
        Ok((id, granted))
    }

    /// Revokes a lease that nobody needs. One that may yet be granted is waited for.
    async fn end(self: Arc<Self>, revocation: Revocation) {
        let give_up_at = Instant::now() + REVOKE_LIMIT;
        while Instant::now() < give_up_at {
            match timeout(REVOKE_TRY, self.revoke(revocation.id)).await {
                Ok(Ok(found)) if found || !revocation.may_be_granted => return,
                Ok(Err(error)) if !error.is_transient() => return,
                Ok(Ok(_) | Err(_)) | Err(_) => sleep(REVOKE_LIMIT / 20).await,
            }
        }
    }

    /// Revokes a lease, and says whether it was there.
    async fn revoke(&self, id: LeaseId) -> Result<bool, BackendError> {
        let revoke = |mut client: Client| async move { client.lease_revoke(id.get()).await };
        match self.server.send(revoke).await {
            Ok(_) => Ok(true),
            Err(error) if is_lease_gone(&error) => Ok(false),
            Err(error) => Err(classify(error)),
        }
    }

    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wanted(&self) -> MutexGuard<'_, Vec<(i64, Reply)>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A grant under way. If it is dropped before its outcome is known, the lease is revoked.
struct PendingGrant<'a> {
    shared: &'a Shared,
    id: LeaseId,
    is_over: bool,
}

impl Drop for PendingGrant<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.stock().revoke_when_granted(self.id);
        }
    }
}

impl std::fmt::Debug for Leases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leases").field("backend", &BACKEND).finish_non_exhaustive()
    }
}
