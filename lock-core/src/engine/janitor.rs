//! Gives back what was dropped, cancelled or left unresolved.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::containment::contained;
use super::retry;
use super::telemetry::Telemetry;
use crate::backend::{DistributedLock, Release};
use crate::model::{AtLeast, BackendError, LockName, OwnerId};

/// Most cleanups that begin at once, so that a server is not flooded when many guards are dropped.
const BURST: usize = 64;

/// After this long a cleanup gives up its turn, though it goes on: its lock may be jammed, and the locks
/// of others are not.
const PROMPT: Duration = Duration::from_millis(50);

/// The most claims that are withdrawn by one request.
const TOGETHER: usize = 100;

/// A withdrawal is tried for no less: a place in a queue outlives the shortest TTLs.
const WITHDRAW_FOR: Duration = Duration::from_secs(5);

/// Carries out what `Drop` cannot: giving leases back (C20).
///
/// Cleanups are taken without blocking, on any thread, inside and outside a runtime. Each is repeated
/// until the server answers, or has forgotten the lease by itself.
///
/// Each lock has a lane of its own, in which one request follows the other. So a lock that is jammed
/// holds up no other, and costs the backend one request at a time. Claims that wait in a lane to be withdrawn go in
/// one request: a storm of callers that give up ends with them.
#[derive(Debug)]
pub(crate) struct Janitor {
    backend: Arc<dyn DistributedLock>,
    telemetry: Arc<Telemetry>,
    lanes: Mutex<Lanes>,
    arrived: Notify,
    burst: Semaphore,
    unfinished: Arc<watch::Sender<Unfinished>>,
    closed: AtomicBool,
}

/// The cleanups that are to be done, by lock.
#[derive(Debug, Default)]
struct Lanes {
    by_lock: HashMap<LockName, VecDeque<(Cleanup, Counted)>>,
    /// The lanes that nobody works on.
    unattended: VecDeque<LockName>,
}

/// Work that is under way.
#[derive(Clone, Copy, Debug, Default)]
struct Unfinished {
    /// Acquisitions and releases, which may yet leave something to give back.
    in_flight: usize,
    /// Cleanups under way.
    cleanups: usize,
    /// When the server has forgotten the last of the cleanups; `None` if there are none.
    until: Option<Instant>,
}

impl Unfinished {
    fn is_empty(&self) -> bool {
        self.in_flight == 0 && self.cleanups == 0
    }

    fn begin_cleanup(&mut self, until: Instant) {
        self.cleanups += 1;
        self.until = self.until.max(Some(until));
    }

    fn end_cleanup(&mut self) {
        self.cleanups -= 1;
        self.until = self.until.filter(|_| self.cleanups > 0);
    }
}

/// Something to give back.
#[derive(Clone, Copy, Debug)]
struct Cleanup {
    remains: Remains,
    owner: OwnerId,
    /// The server has forgotten it by then.
    until: Instant,
    /// For how long it keeps others out, if it is a hold.
    at_least: Option<AtLeast>,
}

impl Cleanup {
    /// Returns true if the claim is to be withdrawn, and nothing else is to be done.
    fn is_withdrawn(&self) -> bool {
        matches!(self.remains, Remains::Claim) && self.at_least.is_none()
    }
}

/// Remains of a claim that the server may still have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Remains {
    /// A hold, which is released, at once or when it has kept others out for long enough.
    Hold,
    /// A hold, a place in a queue, or a request that comes late: the claim is withdrawn.
    Claim,
}

/// Something that may yet have to be given back for as long as this lives, wherever it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<watch::Sender<Unfinished>>);

impl Drop for InFlight {
    fn drop(&mut self) {
        note(&self.0, |unfinished| unfinished.in_flight -= 1);
    }
}

/// A cleanup that is unfinished for as long as this lives.
#[derive(Debug)]
struct Counted(Arc<watch::Sender<Unfinished>>);

impl Drop for Counted {
    fn drop(&mut self) {
        note(&self.0, Unfinished::end_cleanup);
    }
}

/// Notes what changes, and tells it if somebody waits for it.
fn note(unfinished: &watch::Sender<Unfinished>, change: impl FnOnce(&mut Unfinished)) {
    unfinished.send_if_modified(|state| {
        change(state);
        // Looked at under the lock of the state: who reads the state before the change counts already.
        unfinished.receiver_count() > 0
    });
}

/// A lane that goes back to the others if the runtime that works on it ends first.
struct Attended<'a> {
    janitor: &'a Janitor,
    name: LockName,
    is_empty: bool,
}

impl Drop for Attended<'_> {
    fn drop(&mut self) {
        if !self.is_empty {
            self.janitor.lanes().unattended.push_back(self.name.clone());
            self.janitor.wake();
        }
    }
}

impl Janitor {
    pub(crate) fn new(backend: Arc<dyn DistributedLock>, telemetry: Arc<Telemetry>) -> Self {
        Self {
            backend,
            telemetry,
            lanes: Mutex::default(),
            arrived: Notify::new(),
            burst: Semaphore::new(BURST),
            unfinished: Arc::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Takes back what remains of the claim of `owner`; the server forgets it after `kept_for`.
    pub(crate) fn clear(
        &self,
        remains: Remains,
        name: &LockName,
        owner: OwnerId,
        kept_for: Duration,
        at_least: Option<AtLeast>,
    ) {
        let until = Instant::now()
            + match remains {
                Remains::Hold => kept_for,
                Remains::Claim => kept_for.max(WITHDRAW_FOR),
            };
        note(&self.unfinished, |unfinished| unfinished.begin_cleanup(until));
        let counted = Counted(self.unfinished.clone());
        self.lanes().push(name, Cleanup { remains, owner, until, at_least }, counted);
        self.wake();
    }

    /// Wakes everyone who works on lanes: the task's runtime may not be driven, and a shutdown works beside
    /// it then.
    fn wake(&self) {
        self.arrived.notify_waiters();
        self.arrived.notify_one();
    }

    /// Counts something as unfinished that may yet have to be given back.
    pub(crate) fn begin(&self) -> InFlight {
        note(&self.unfinished, |unfinished| unfinished.in_flight += 1);
        InFlight(self.unfinished.clone())
    }

    /// Gives everything back. Returns once that is done; or once the server has forgotten it by itself,
    /// and what began before and gave nothing back yet had `grace` to end.
    ///
    /// It does the work itself, since the runtime that runs the task may not be driven any more. What that
    /// task had begun stays with it, until the server has forgotten it.
    pub(crate) async fn finish(self: &Arc<Self>, grace: Duration) {
        let end_of_grace = Instant::now() + grace;
        let mut unfinished = self.unfinished.subscribe();
        let mut running = pin!(self.clone().run().fuse());
        loop {
            let now = *unfinished.borrow_and_update();
            let end = now.until.map_or(end_of_grace, |until| until.max(end_of_grace));
            if now.is_empty() || Instant::now() >= end {
                return;
            }
            tokio::select! {
                biased;
                () = &mut running => {}
                _ = unfinished.changed() => {}
                () = sleep_until(end) => {}
            }
        }
    }

    /// Lets [`run`](Janitor::run) return once nothing is left to do.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake();
    }

    /// Gives back, until closed and done.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut attended = FuturesUnordered::new();
        loop {
            while let Some(lane) = self.next_lane() {
                attended.push(self.attend(lane));
            }
            if attended.is_empty() && self.closed.load(Ordering::Acquire) {
                return;
            }
            tokio::select! {
                biased;
                Some(()) = attended.next() => {}
                () = self.arrived.notified() => {}
            }
        }
    }

    fn next_lane(&self) -> Option<Attended<'_>> {
        let name = self.lanes().unattended.pop_front()?;
        Some(Attended { janitor: self, name, is_empty: false })
    }

    /// Works on a lane until it is empty.
    async fn attend(&self, mut lane: Attended<'_>) {
        while !lane.is_empty {
            let next = self.lanes().next(&lane.name);
            if let Some(request) = &next {
                match self.carry_out(&lane.name, request).await {
                    Ok(Some(release)) => self.telemetry.given_back(&lane.name, release),
                    Ok(None) => {}
                    Err(error) => self.telemetry.not_given_back(&lane.name, &error),
                }
            }
            lane.is_empty = self.lanes().finish(&lane.name, next.map_or(1, |done| done.count()));
        }
    }

    /// Carries out one request of a lane. A burst of cleanups starts in turn, so that a server with many of them
    /// to do answers each in time; one that is not answered promptly keeps no other from its turn.
    async fn carry_out(
        &self,
        name: &LockName,
        request: &Request,
    ) -> Result<Option<Release>, BackendError> {
        let backend = self.backend.capabilities().backend;
        let turn = self.burst.acquire().await;
        let limit = request.until().saturating_duration_since(Instant::now());
        let give_back = || contained(backend, self.give_back(name, request));
        let mut done = pin!(retry::within(limit, backend, give_back));
        match timeout(PROMPT, &mut done).await {
            Ok(answer) => answer,
            Err(_) => {
                drop(turn);
                done.await
            }
        }
    }

    /// Gives back by one request, or two. `None` of claims, of which nobody knows what they had.
    async fn give_back(
        &self,
        name: &LockName,
        request: &Request,
    ) -> Result<Option<Release>, BackendError> {
        let cleanup = match request {
            Request::Withdraw(owners, _) => {
                return self.backend.withdraw(name, owners).await.map(|()| None);
            }
            Request::One(cleanup) => cleanup,
        };
        let (left, owner) = (cleanup.at_least.as_ref().and_then(AtLeast::left), cleanup.owner);
        let retired = match left.zip(self.backend.run_records()) {
            // C41: the hold is nobody's from here on. A withdrawal ends what else the claim may do.
            Some((left, records)) => Some(records.release_after(name, owner, left).await?),
            None => None,
        };
        match (cleanup.remains, retired) {
            (Remains::Hold, Some(release)) => Ok(Some(release)),
            (Remains::Hold, None) => self.backend.release(name, owner).await.map(Some),
            (Remains::Claim, _) => self.backend.withdraw(name, &[owner]).await.map(|()| None),
        }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lanes {
    fn push(&mut self, name: &LockName, cleanup: Cleanup, counted: Counted) {
        if let Some(lane) = self.by_lock.get_mut(name) {
            return lane.push_back((cleanup, counted));
        }
        self.by_lock.insert(name.clone(), VecDeque::from([(cleanup, counted)]));
        self.unattended.push_back(name.clone());
    }

    /// The next request of a lane: claims that follow each other are withdrawn together.
    fn next(&self, name: &LockName) -> Option<Request> {
        let lane = self.by_lock.get(name)?;
        let cleanups = lane.iter().map(|(cleanup, _)| cleanup);
        let claims = cleanups.take_while(|cleanup| cleanup.is_withdrawn()).take(TOGETHER);
        let (owners, ends): (Vec<_>, Vec<_>) =
            claims.map(|claim| (claim.owner, claim.until)).unzip();
        match ends.into_iter().max() {
            Some(until) => Some(Request::Withdraw(owners, until)),
            None => lane.front().map(|(cleanup, _)| Request::One(*cleanup)),
        }
    }

    /// Takes the first so many out of a lane that is attended, and tells whether the lane is empty, and gone.
    fn finish(&mut self, name: &LockName, done: usize) -> bool {
        let Some(lane) = self.by_lock.get_mut(name) else { return true };
        lane.drain(..done.min(lane.len()));
        let is_empty = lane.is_empty();
        if is_empty {
            self.by_lock.remove(name);
        }
        is_empty
    }
}

/// One request of a lane.
enum Request {
    /// Claims of these owners are withdrawn; the server has forgotten the last of them by then.
    Withdraw(Vec<OwnerId>, Instant),
    One(Cleanup),
}

impl Request {
    fn until(&self) -> Instant {
        match self {
            Self::Withdraw(_, until) => *until,
            Self::One(cleanup) => cleanup.until,
        }
    }

    /// The number of cleanups that it carries out.
    fn count(&self) -> usize {
        match self {
            Self::Withdraw(owners, _) => owners.len(),
            Self::One(_) => 1,
        }
    }
}
