//! Gives back dropped holds, cancelled claims and unresolved claims.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::containment::contained;
use super::process::Process;
use super::retry;
use super::telemetry::Telemetry;
use crate::backend::{DistributedLock, Release};
use crate::model::{BackendError, LockName, OwnerId};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard, locked};

/// Most cleanups that begin at once at a server, so that it is not flooded when many guards are dropped.
const BURST: usize = 64;

/// Longest turn of a cleanup. Then it goes on without its turn: its lock may be jammed, and other locks are not.
const PROMPT: Duration = Duration::from_millis(50);

/// Most claims that one request withdraws.
const TOGETHER: usize = 100;

/// Least time for which a withdrawal is tried: a place in a queue outlives the shortest TTLs.
const WITHDRAW_FOR: Duration = Duration::from_secs(5);

/// Does the work that `Drop` cannot do: gives leases back (C20).
///
/// Cleanups are accepted without blocking, on any thread, inside and outside a runtime. Each is repeated until the
/// server answers, or until the server has forgotten the lease.
///
/// Each lock has its own lane, with one request at a time. So a jammed lock does not delay other locks, and costs the
/// backend one request at a time. Claims that wait in one lane for their withdrawal share one request, since many
/// callers may give up at once.
#[derive(Debug)]
pub(crate) struct Janitor {
    backend: Arc<dyn DistributedLock>,
    telemetry: Arc<Telemetry>,
    longest_try: Duration,
    process: Process,
    lanes: Mutex<Lanes>,
    arrived: Notify,
    /// The turns at each server, so that a silent one delays no cleanup of the others.
    turns: Mutex<HashMap<u64, Arc<Semaphore>>>,
    unfinished: Arc<watch::Sender<Unfinished>>,
    closed: AtomicBool,
}

/// The pending cleanups, by lock.
#[derive(Debug, Default)]
struct Lanes {
    by_lock: HashMap<LockName, VecDeque<(Cleanup, Counted)>>,
    /// The lanes without a worker.
    unattended: VecDeque<LockName>,
}

/// Work in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Unfinished {
    /// Acquisitions and releases, which may still leave something to give back.
    in_flight: usize,
    /// Cleanups in flight.
    cleanups: usize,
    /// The time by which the server has forgotten all cleanups; `None` if there are none.
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

/// A claim to give back.
#[derive(Clone, Copy, Debug)]
struct Cleanup {
    remains: Remains,
    owner: OwnerId,
    /// The server has forgotten the claim by then.
    until: Instant,
}

impl Cleanup {
    /// Returns true if the claim is withdrawn.
    fn is_withdrawn(&self) -> bool {
        matches!(self.remains, Remains::Claim)
    }
}

/// The part of a claim that the server may still have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Remains {
    /// A hold, which is released.
    Hold,
    /// A hold, a place in a queue, or a request that may come late: the claim is withdrawn.
    Claim,
}

/// While this lives, its owner may still leave something to give back. It may be dropped anywhere.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<watch::Sender<Unfinished>>);

impl Drop for InFlight {
    fn drop(&mut self) {
        note(&self.0, |unfinished| unfinished.in_flight -= 1);
    }
}

/// While this lives, a cleanup is unfinished.
#[derive(Debug)]
struct Counted(Arc<watch::Sender<Unfinished>>);

impl Drop for Counted {
    fn drop(&mut self) {
        note(&self.0, Unfinished::end_cleanup);
    }
}

/// Notes a change, and signals it if somebody waits for it.
fn note(unfinished: &watch::Sender<Unfinished>, change: impl FnOnce(&mut Unfinished)) {
    unfinished.send_if_modified(|state| {
        change(state);
        // The count is read under the lock of the state: so it includes a waiter that read the state before the
        // change.
        unfinished.receiver_count() > 0
    });
}

/// A lane with a worker. It is free again if the worker's runtime ends first.
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
    pub(crate) fn new(
        backend: Arc<dyn DistributedLock>,
        telemetry: Arc<Telemetry>,
        longest_try: Duration,
    ) -> Self {
        Self {
            backend,
            telemetry,
            longest_try,
            process: Process::current(),
            lanes: Mutex::default(),
            arrived: Notify::new(),
            turns: Mutex::default(),
            unfinished: Arc::new(watch::channel(Unfinished::default()).0),
            closed: AtomicBool::new(false),
        }
    }

    /// Takes back the remains of the claim of `owner`; the server forgets the claim after `kept_for`.
    pub(crate) fn clear(
        &self,
        remains: Remains,
        name: &LockName,
        owner: OwnerId,
        kept_for: Duration,
    ) {
        if !self.process.is_this() {
            return;
        }
        let until = Instant::now()
            + match remains {
                Remains::Hold => kept_for,
                Remains::Claim => kept_for.max(WITHDRAW_FOR),
            };
        note(&self.unfinished, |unfinished| unfinished.begin_cleanup(until));
        let counted = Counted(self.unfinished.clone());
        self.lanes().push(name, Cleanup { remains, owner, until }, counted);
        self.wake();
    }

    /// Returns true if the claim of `owner` is given back, or will be.
    pub(crate) fn has(&self, name: &LockName, owner: OwnerId) -> bool {
        let lanes = self.lanes();
        let lane = lanes.by_lock.get(name);
        lane.is_some_and(|lane| lane.iter().any(|(cleanup, _)| cleanup.owner == owner))
    }

    /// Wakes all workers: the task's runtime may not be driven, and then a shutdown works beside it.
    fn wake(&self) {
        self.arrived.notify_waiters();
        self.arrived.notify_one();
    }

    /// Counts work as unfinished that may still leave something to give back.
    pub(crate) fn begin(&self) -> InFlight {
        note(&self.unfinished, |unfinished| unfinished.in_flight += 1);
        InFlight(self.unfinished.clone())
    }

    /// Gives everything back. Returns once that is done. Returns at the latest when the server has forgotten
    /// everything, and earlier work in flight had `grace` to end.
    ///
    /// This does the work itself, since the runtime of the task may not be driven any more. Cleanups that the task
    /// had begun stay with it, until the server has forgotten them.
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

    /// Gives back until it is closed and nothing is left. In a fork, everything belongs to the first process.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut attended = FuturesUnordered::new();
        while self.process.is_this() {
            // C19: what is left to do at the close is done.
            let is_closed = self.closed.load(Ordering::Acquire);
            while let Some(lane) = self.next_lane() {
                attended.push(self.attend(lane));
            }
            if attended.is_empty() && is_closed {
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
            let next = self.lanes().next(&lane.name).unwrap_or_default();
            if !next.is_empty() {
                match self.carry_out(&lane.name, &next).await {
                    Ok(Some(release)) => self.telemetry.given_back(&lane.name, release),
                    Ok(None) => {}
                    Err(error) => self.telemetry.not_given_back(&lane.name, &error),
                }
            }
            lane.is_empty = self.lanes().finish(&lane.name, next.len());
        }
    }

    /// Carries out one request of a lane. Many cleanups at once take turns, so that the server can answer each in
    /// time. A cleanup without a prompt answer loses its turn, and delays no other.
    async fn carry_out(
        &self,
        name: &LockName,
        cleanups: &[Cleanup],
    ) -> Result<Option<Release>, BackendError> {
        let backend = self.backend.capabilities().backend;
        let turns = self.turns_at(self.backend.server_of(name));
        let turn = turns.acquire().await;
        let until = cleanups.iter().map(|cleanup| cleanup.until).max();
        let limit = until.map(|until| until.saturating_duration_since(Instant::now()));
        let give_back = || contained(backend, self.give_back(name, cleanups));
        let limit = limit.unwrap_or_default();
        let mut done = pin!(retry::within(limit, self.longest_try, backend, give_back));
        match timeout(PROMPT, &mut done).await {
            Ok(answer) => answer,
            Err(_) => {
                drop(turn);
                done.await
            }
        }
    }

    /// Gives back by one request. Returns `None` for claims, since their state on the server is unknown.
    async fn give_back(
        &self,
        name: &LockName,
        cleanups: &[Cleanup],
    ) -> Result<Option<Release>, BackendError> {
        match *cleanups {
            [Cleanup { remains: Remains::Hold, owner, .. }] => {
                self.backend.release(name, owner).await.map(Some)
            }
            _ => {
                let owners: Vec<_> = cleanups.iter().map(|claim| claim.owner).collect();
                self.backend.withdraw(name, &owners).await.map(|()| None)
            }
        }
    }

    fn turns_at(&self, server: u64) -> Arc<Semaphore> {
        let new = || Arc::new(Semaphore::new(BURST));
        locked(&self.turns).entry(server).or_insert_with(new).clone()
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        locked(&self.lanes)
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

    /// Returns the cleanups of the next request of a lane: adjacent claims to withdraw, or one other.
    fn next(&self, name: &LockName) -> Option<Vec<Cleanup>> {
        let lane = self.by_lock.get(name)?;
        let (first, _) = lane.front()?;
        let cleanups = lane.iter().map(|(cleanup, _)| *cleanup);
        match first.is_withdrawn() {
            true => Some(cleanups.take_while(Cleanup::is_withdrawn).take(TOGETHER).collect()),
            false => Some(vec![*first]),
        }
    }

    /// Removes the first `done` cleanups from an attended lane. Returns true if the lane is then empty, and removed.
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
