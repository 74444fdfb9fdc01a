//! Gives back what was dropped, cancelled or left in doubt.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

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
    unfinished: Arc<watch::Sender<Unfinished>>,
    closed: AtomicBool,
}

/// What is under way.
#[derive(Clone, Copy, Debug, Default)]
struct Unfinished {
    count: usize,
    /// When the last of the leases to give back has expired by itself.
    until: Option<Instant>,
}

/// Something to give back.
#[derive(Debug)]
struct Chore {
    what: Returned,
    /// The server forgets it by itself after this long.
    ttl: Duration,
    _begun: Begun,
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

/// Something that is unfinished for as long as this lives, wherever it is dropped.
#[derive(Debug)]
pub(crate) struct Begun(Arc<watch::Sender<Unfinished>>);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.send_modify(|unfinished| unfinished.count -= 1);
    }
}

/// A chore that goes back to the others if the runtime that carries it out ends first.
struct UnderWay<'a> {
    janitor: &'a Janitor,
    chore: Option<Chore>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(chore) = self.chore.take() {
            self.janitor.chores().push_back(chore);
            // Another may have taken over already.
            self.janitor.arrived.notify_one();
        }
    }
}

impl Janitor {
    pub(crate) fn new(backend: Arc<dyn DistributedLock>, telemetry: Arc<Telemetry>) -> Self {
        Self {
            backend,
            telemetry,
            chores: Mutex::default(),
            arrived: Notify::new(),
            unfinished: Arc::default(),
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
        let _begun = self.begin();
        let until = Instant::now() + ttl;
        self.unfinished
            .send_modify(|unfinished| unfinished.until = unfinished.until.max(Some(until)));
        self.chores().push_back(Chore { what, ttl, _begun });
        self.arrived.notify_one();
    }

    /// Counts something as unfinished that may yet have to be given back.
    pub(crate) fn begin(&self) -> Begun {
        self.unfinished.send_modify(|unfinished| unfinished.count += 1);
        Begun(self.unfinished.clone())
    }

    /// Gives everything back. Returns once that is done; or once it has expired by itself, and what
    /// began before and gave nothing back yet had `grace` to end.
    ///
    /// It does the chores itself, since the runtime that runs the task may not be driven any more.
    pub(crate) async fn finish(self: &Arc<Self>, grace: Duration) {
        let end_of_grace = Instant::now() + grace;
        let mut unfinished = self.unfinished.subscribe();
        let mut running = pin!(self.clone().run().fuse());
        loop {
            let Unfinished { count, until } = *unfinished.borrow_and_update();
            let end = until.map_or(end_of_grace, |until| until.max(end_of_grace));
            if count == 0 || Instant::now() >= end {
                return;
            }
            tokio::select! {
                () = &mut running => {}
                _ = unfinished.changed() => {}
                () = sleep_until(end) => {}
            }
        }
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
