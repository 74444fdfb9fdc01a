//! Gives back dropped holds, cancelled claims and unresolved claims.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::claim_state::ClaimState;
use crate::backend::Release;
use crate::engine::client::Store;
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
    pub(super) store: Arc<Store>,
    lanes: Mutex<Lanes>,
    arrived: Notify,
    /// Signals that a lane is empty.
    emptied: Notify,
    /// The turns at each server, so that a silent one delays no cleanup of the others.
    turns: Mutex<HashMap<u64, Arc<Semaphore>>>,
    /// Its receivers are the work in flight.
    in_flight: watch::Sender<()>,
    closed: AtomicBool,
}

/// While this lives, its owner may still leave something to give back. It may be dropped anywhere.
pub(crate) type InFlight = watch::Receiver<()>;

/// The pending cleanups, by lock.
#[derive(Debug, Default)]
struct Lanes {
    by_lock: HashMap<LockName, VecDeque<Cleanup>>,
    /// The lanes without a worker.
    unattended: VecDeque<LockName>,
}

/// A claim to give back.
#[derive(Clone, Copy, Debug)]
struct Cleanup {
    owner: OwnerId,
    /// True if the claim is withdrawn, false if its hold is released.
    withdraws: bool,
    /// The server has forgotten the claim by then.
    until: Instant,
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
    pub(crate) fn new(store: Arc<Store>) -> Self {
        let (lanes, arrived, emptied, turns, closed) = Default::default();
        let in_flight = watch::channel(()).0;
        Self { store, lanes, arrived, emptied, turns, in_flight, closed }
    }

    /// Takes back a claim, of which the server has what its `state` says until it has forgotten the claim, after
    /// `kept_for`.
    pub(super) fn clear(
        &self,
        name: &LockName,
        owner: OwnerId,
        state: ClaimState,
        kept_for: Duration,
    ) {
        if state == ClaimState::Absent || !self.store.process.is_this() {
            return;
        }
        let withdraws = state != ClaimState::Held;
        let kept_for = if withdraws { kept_for.max(WITHDRAW_FOR) } else { kept_for };
        let until = Instant::now() + kept_for;
        self.lanes().push(name, Cleanup { owner, withdraws, until });
        self.wake();
    }

    /// Returns true if the claim of `owner` is given back, or will be.
    pub(crate) fn has(&self, name: &LockName, owner: OwnerId) -> bool {
        self.lanes().of(name).any(|cleanup| cleanup.owner == owner)
    }

    /// Wakes all workers: the task's runtime may not be driven, and then a shutdown works beside it.
    fn wake(&self) {
        self.arrived.notify_waiters();
        self.arrived.notify_one();
    }

    /// Notes work that may still leave something to give back.
    pub(crate) fn begin(&self) -> InFlight {
        self.in_flight.subscribe()
    }

    /// Gives everything back. Returns once that is done. Returns at the latest when the server has forgotten
    /// everything, and earlier work in flight had `grace` to end.
    ///
    /// This does the work itself, since the runtime of the task may not be driven any more. Cleanups that the task
    /// had begun stay with it, until the server has forgotten them.
    pub(crate) async fn finish(self: &Arc<Self>, grace: Duration) {
        let done = async {
            let _ = timeout(grace, self.in_flight.closed()).await;
            self.is_empty().await;
        };
        tokio::select! {
            biased;
            () = self.clone().run() => {}
            () = done => {}
        }
    }

    /// Waits until no cleanup is left, or the server has forgotten all of them.
    async fn is_empty(&self) {
        loop {
            // Listens before it looks, so that no end is missed.
            let mut emptied = pin!(self.emptied.notified());
            emptied.as_mut().enable();
            let until = self.lanes().until();
            match until.filter(|until| Instant::now() < *until) {
                Some(until) => drop(timeout_at(until, emptied).await),
                None => return,
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
        while self.store.process.is_this() {
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
            let next = self.lanes().next(&lane.name);
            match self.carry_out(&lane.name, &next).await {
                Ok(Some(release)) => self.store.telemetry.given_back(&lane.name, release),
                Ok(None) => {}
                Err(error) => self.store.telemetry.not_given_back(&lane.name, &error),
            }
            lane.is_empty = self.lanes().finish(&lane.name, next.len());
        }
        self.emptied.notify_waiters();
    }

    /// Carries out one request of a lane. Many cleanups at once take turns, so that the server can answer each in
    /// time. A cleanup without a prompt answer loses its turn, and delays no other.
    async fn carry_out(
        &self,
        name: &LockName,
        cleanups: &[Cleanup],
    ) -> Result<Option<Release>, BackendError> {
        let turns = self.turns_at(self.store.backend.server_of(name));
        let turn = turns.acquire().await;
        let until = cleanups.iter().map(|cleanup| cleanup.until).max();
        let limit = until.map(|until| until.saturating_duration_since(Instant::now()));
        let give_back = |_| self.give_back(name, cleanups);
        let mut done = pin!(self.store.request_within(limit.unwrap_or_default(), give_back));
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
            [Cleanup { withdraws: false, owner, .. }] => {
                self.store.backend.release(name, owner).await.map(Some)
            }
            _ => {
                let owners: Vec<_> = cleanups.iter().map(|claim| claim.owner).collect();
                self.store.backend.withdraw(name, &owners).await.map(|()| None)
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
    fn push(&mut self, name: &LockName, cleanup: Cleanup) {
        if let Some(lane) = self.by_lock.get_mut(name) {
            return lane.push_back(cleanup);
        }
        self.by_lock.insert(name.clone(), VecDeque::from([cleanup]));
        self.unattended.push_back(name.clone());
    }

    /// Returns the cleanups of a lane.
    fn of(&self, name: &LockName) -> impl Iterator<Item = Cleanup> {
        self.by_lock.get(name).into_iter().flatten().copied()
    }

    /// Returns the time by which the server has forgotten all cleanups; `None` if there are none.
    fn until(&self) -> Option<Instant> {
        self.by_lock.values().flatten().map(|cleanup| cleanup.until).max()
    }

    /// Returns the cleanups of the next request of a lane: adjacent claims to withdraw, or one release.
    fn next(&self, name: &LockName) -> Vec<Cleanup> {
        let claims = self.of(name).take_while(|cleanup| cleanup.withdraws);
        let claims: Vec<_> = claims.take(TOGETHER).collect();
        if claims.is_empty() { self.of(name).take(1).collect() } else { claims }
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
