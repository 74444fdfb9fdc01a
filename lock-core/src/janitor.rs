//! Gives back what was dropped, cancelled or left in doubt.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Notify, watch};

use crate::retry;
use crate::telemetry::Telemetry;
use crate::{BackendError, Claim, DistributedLock, Lease, LockName, OwnerId};

/// How many leases are given back at once.
const AT_ONCE: usize = 64;

/// A withdrawal is tried for no less: a place in a queue outlives the shortest TTLs.
const WITHDRAW_FOR: Duration = Duration::from_secs(5);

/// Carries out what `Drop` cannot: giving leases back.
///
/// Chores are taken without blocking, on any thread, inside and outside a runtime. Each is retried
/// until the server answers or the lease has expired by itself.
#[derive(Debug)]
pub(crate) struct Janitor {
    backend: Arc<dyn DistributedLock>,
    telemetry: Arc<Telemetry>,
    chores: Mutex<VecDeque<Chore>>,
    arrived: Notify,
    unfinished: Arc<watch::Sender<usize>>,
    closed: AtomicBool,
}

/// Something to give back.
#[derive(Debug)]
struct Chore {
    what: Returned,
    /// The server forgets it by itself after this long.
    ttl: Duration,
    _unfinished: Unfinished,
}

#[derive(Debug)]
enum Returned {
    Hold(LockName, OwnerId),
    Claim(Claim),
}

impl Returned {
    fn name(&self) -> &LockName {
        match self {
            Self::Hold(name, _) => name,
            Self::Claim(claim) => &claim.name,
        }
    }
}

/// Counts a chore as unfinished for as long as it lives, wherever it is dropped.
#[derive(Debug)]
pub(crate) struct Unfinished(Arc<watch::Sender<usize>>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// A chore that goes back to the others if the runtime that carries it out ends first.
struct UnderWay<'a> {
    janitor: &'a Janitor,
    chore: Option<Chore>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.janitor.chores().extend(self.chore.take());
    }
}

impl Janitor {
    pub(crate) fn new(backend: Arc<dyn DistributedLock>, telemetry: Arc<Telemetry>) -> Self {
        Self {
            backend,
            telemetry,
            chores: Mutex::default(),
            arrived: Notify::new(),
            unfinished: Arc::new(watch::Sender::new(0)),
            closed: AtomicBool::new(false),
        }
    }

    /// Gives back a hold that was dropped.
    pub(crate) fn give_back(&self, lease: &Lease) {
        let what = Returned::Hold(lease.name.clone(), lease.owner);
        self.take(what, lease.granted.max(lease.ttl.as_duration()));
    }

    /// Takes back an acquisition that may or may not have been granted or queued.
    pub(crate) fn withdraw(&self, claim: &Claim) {
        self.take(Returned::Claim(claim.clone()), claim.ttl.as_duration().max(WITHDRAW_FOR));
    }

    fn take(&self, what: Returned, ttl: Duration) {
        self.chores().push_back(Chore { what, ttl, _unfinished: self.begin() });
        self.arrived.notify_one();
    }

    /// Counts something as unfinished that may yet have to be given back.
    pub(crate) fn begin(&self) -> Unfinished {
        self.unfinished.send_modify(|count| *count += 1);
        Unfinished(self.unfinished.clone())
    }

    /// Waits until everything unfinished is given back or expired.
    pub(crate) async fn idle(&self) {
        let _ = self.unfinished.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Lets [`run`](Janitor::run) return once nothing is left to do.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.arrived.notify_one();
    }

    /// Gives back, until closed and done.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < AT_ONCE
                && let Some(chore) = self.next()
            {
                under_way.push(self.carry_out(chore));
            }
            if under_way.is_empty() && self.closed.load(Ordering::Acquire) {
                return;
            }
            tokio::select! {
                () = self.arrived.notified() => {}
                Some(()) = under_way.next() => {}
            }
        }
    }

    async fn carry_out(&self, chore: Chore) {
        let backend = self.backend.capabilities().backend;
        let mut under_way = UnderWay { janitor: self, chore: Some(chore) };
        if let Some(chore) = &under_way.chore {
            let done = retry::within(chore.ttl, backend, || self.ask(&chore.what)).await;
            if let Err(error) = done {
                self.telemetry.not_given_back(chore.what.name(), &error);
            }
        }
        under_way.chore = None;
    }

    async fn ask(&self, what: &Returned) -> Result<(), BackendError> {
        match what {
            Returned::Hold(name, owner) => self.backend.release(name, *owner).await.map(drop),
            Returned::Claim(claim) => self.backend.withdraw(claim).await,
        }
    }

    fn next(&self) -> Option<Chore> {
        self.chores().pop_front()
    }

    fn chores(&self) -> MutexGuard<'_, VecDeque<Chore>> {
        self.chores.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
