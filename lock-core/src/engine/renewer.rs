//! Renews everything a client holds, and tells what is lost.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Notify, watch};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use super::containment::contained;
use super::hold::{Duty, Hold};
use super::schedule::Schedule;
use crate::backend::{DistributedLock, DistributedLockExt, Extension, LossWatch};
use crate::model::{BackendError, Clock, LockName, LostReason, Moment, Renewal};

/// Most holds renewed in one call to the backend: enough that ten thousand are a hundred requests, few enough that one
/// of them does not keep a server from its other clients.
const BATCH: usize = 100;

/// After how many holds the renewer lets others go on, and the runtime hear what has come for them: a batch is long
/// beside the time of a request.
const AT_A_STRETCH: usize = 10;

/// A task that ran within this span is not asked for a sign of life.
const LATELY: Duration = Duration::from_secs(2);

/// Renews the holds of one client at a third of their TTL, in batches (C12), and ends those whose
/// deadline passes. Renewals run beside the deadlines, so that one that hangs delays none (C9).
#[derive(Debug)]
pub(crate) struct Renewer {
    backend: Arc<dyn DistributedLock>,
    clock: Arc<dyn Clock>,
    registry: Mutex<Registry>,
    changed: Notify,
    has_run: AtomicBool,
    /// When its task last ran.
    ran_at: watch::Sender<Instant>,
}

#[derive(Default)]
struct Registry {
    holds: Schedule,
    /// Watches of the backend, until the renewer takes them up.
    watches: Vec<(Arc<Hold>, LossWatch)>,
    /// When the renewer looks next by itself; `None` if it waits to be told.
    looks_at: Option<Moment>,
}

/// Registration of a hold at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a hold that is superseded belongs to another guard on the server"]
pub(crate) enum Registration {
    /// This hold, or none: it had been lost.
    Own,
    /// A later hold of the same lease.
    Superseded,
}

impl Registration {
    pub(crate) fn is_superseded(self) -> bool {
        self == Self::Superseded
    }
}

/// The lease of a hold is registered already.
#[derive(Debug)]
pub(crate) struct AlreadyRegistered;

impl Renewer {
    pub(crate) fn new(backend: Arc<dyn DistributedLock>, clock: Arc<dyn Clock>) -> Self {
        let (registry, changed, has_run) = Default::default();
        let ran_at = watch::Sender::new(Instant::now());
        Self { backend, clock, registry, changed, has_run, ran_at }
    }

    /// Renews a hold from now on. An owner has one hold at a time: a lease that is attached twice would
    /// be believed by one guard after the other has released it.
    pub(crate) fn register(&self, hold: Arc<Hold>) -> Result<(), AlreadyRegistered> {
        let now = self.clock.now();
        let due = duty_within(&hold, now);
        let mut registry = self.registry();
        if registry.holds.of(hold.owner).is_some_and(|held| held.lost_reason().is_none()) {
            return Err(AlreadyRegistered);
        }
        registry.holds.put(hold.clone(), now.after(due));
        let watch = self.backend.watch(&hold.lease());
        let in_time = watch.is_none() && registry.looks_at.is_some_and(|at| now.until(at) <= due);
        registry.watches.extend(watch.map(|watch| (hold, watch)));
        drop(registry);
        if !in_time {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Returns true if a lock is held. Looks at each hold, so it is for callers with time.
    pub(crate) fn has(&self, name: &LockName) -> bool {
        self.registry().holds.holds().any(|hold| hold.is_of(name) && hold.lost_reason().is_none())
    }

    /// Looks at a hold anew, because it changed.
    pub(crate) fn look_at(&self, hold: &Arc<Hold>) {
        self.registry().holds.put_off(hold, self.clock.now());
        self.changed.notify_one();
    }

    /// Renews a hold no more.
    pub(crate) fn unregister(&self, hold: &Arc<Hold>) -> Registration {
        let holds = &mut self.registry().holds;
        if holds.of(hold.owner).is_some_and(|other| !Arc::ptr_eq(other, hold)) {
            return Registration::Superseded;
        }
        holds.remove(hold.owner);
        Registration::Own
    }

    /// Renews nothing more, and returns what was held.
    pub(crate) fn unregister_all(&self) -> Vec<Arc<Hold>> {
        self.registry().holds.take_all()
    }

    /// Returns true if the renewer's task has run a short while ago.
    pub(crate) fn ran_lately(&self) -> bool {
        self.still_for() < LATELY
    }

    /// Wakes the renewer's task, and waits until it runs.
    pub(crate) async fn runs(&self) {
        let mut ran = self.ran_at.subscribe();
        self.changed.notify_one();
        // The sender lives as long as this.
        let _ = ran.changed().await;
    }

    /// For how long the renewer's task has not run.
    pub(crate) fn still_for(&self) -> Duration {
        self.ran_at.borrow().elapsed()
    }

    /// Renews, for ever.
    ///
    /// It may be the second to do so: the renewals of one that panicked or whose runtime ended have no answer.
    pub(crate) async fn run(self: Arc<Self>) {
        if self.has_run.swap(true, Ordering::Relaxed) {
            self.take_over();
        }
        let (mut renewals, mut watches) = (FuturesUnordered::new(), FuturesUnordered::new());
        loop {
            self.ran_at.send_replace(Instant::now());
            let begun = std::mem::take(&mut self.registry().watches);
            watches.extend(begun.into_iter().map(|(hold, watch)| end_when_lost(hold, watch)));
            let batches = batches(self.take_due(), |name| self.backend.server_of(name));
            renewals.extend(batches.into_iter().map(|batch| self.renew(batch)));
            // Each of them gets its turn: all that is due is taken in each round.
            tokio::select! {
                biased;
                Some(()) = watches.next() => {}
                Some(()) = renewals.next() => {}
                () = self.changed.notified() => {}
                () = self.sleep_until_due() => {}
            }
        }
    }

    /// Takes over from a renewer that panicked or whose runtime ended: the renewals that it had under way have no
    /// answer.
    fn take_over(&self) {
        let mut registry = self.registry();
        let (holds, now): (Vec<_>, _) =
            (registry.holds.holds().cloned().collect(), self.clock.now());
        for hold in &holds {
            registry.holds.put_off(hold, now);
        }
        holds.iter().filter(|hold| hold.is_renewing()).for_each(|hold| hold.renewal_failed(None));
        let watch = |hold: Arc<Hold>| Some((hold.clone(), self.backend.watch(&hold.lease())?));
        registry.watches = holds.into_iter().filter_map(watch).collect();
    }

    /// Sleeps until something is due, or without end if nothing is held: an idle client costs nothing.
    ///
    /// A release does not shorten the sleep. So a client that takes a lock over and over wakes the renewer once for
    /// many holds.
    async fn sleep_until_due(&self) {
        match self.looks_at() {
            Some(next) => self.clock.sleep_until(next).await,
            None => std::future::pending().await,
        }
    }

    /// When something is due; `None` if nothing is held.
    fn looks_at(&self) -> Option<Moment> {
        let mut registry = self.registry();
        registry.looks_at = registry.holds.next();
        registry.looks_at
    }

    /// Ends what is over, and takes what is to be renewed now.
    fn take_due(&self) -> Vec<Arc<Hold>> {
        let now = self.clock.now();
        let holds = &mut self.registry().holds;
        let mut due = Vec::new();
        for hold in holds.due(now) {
            match hold.duty(now) {
                Duty::Over => holds.remove(hold.owner),
                Duty::Renew => due.push(hold),
                Duty::RenewInBatch(within) | Duty::Watch(within) => {
                    holds.put_off_for(&hold, now, within);
                }
            }
        }
        // C12: a request that is made takes along what would be due soon.
        let room = due.len().next_multiple_of(BATCH) - due.len();
        let may_join = |hold: &Arc<Hold>| matches!(hold.duty(now), Duty::RenewInBatch(_));
        due.extend(holds.after(now).take(BATCH).filter(may_join).take(room));
        for hold in &due {
            // A hold under renewal is next looked at by its deadline.
            holds.put_off(hold, hold.deadline());
        }
        due
    }

    async fn renew(&self, batch: Vec<(Arc<Hold>, Renewal)>) {
        let limit = batch.iter().map(|(hold, _)| hold.attempt_limit()).min().unwrap_or_default();
        let renewals: Vec<Renewal> = batch.iter().map(|(_, renewal)| renewal.clone()).collect();
        let asked = self.clock.now();
        let backend = self.backend.capabilities().backend;
        let answers = timeout(limit, self.extend_all(backend, &renewals)).await.unwrap_or_default();
        let mut answers = answers.into_iter();
        for (place, (hold, renewal)) in batch.into_iter().enumerate() {
            if place % AT_A_STRETCH == AT_A_STRETCH - 1 {
                yield_now().await;
            }
            match answers.next() {
                Some(Ok(Extension::Extended(granted))) => {
                    hold.renewed(asked, renewal.ttl, granted);
                }
                Some(Ok(Extension::Lost)) => hold.end(LostReason::Evicted),
                Some(Err(error)) => hold.renewal_failed(Some(&error)),
                None => hold.renewal_failed(Some(&BackendError::no_answer(backend, limit))),
            }
            self.registry().holds.put_off(&hold, self.clock.now());
        }
    }

    /// Extends a batch. If the server refuses it as a whole, or the backend panics, each hold is asked for alone, so
    /// that one that cannot be extended does not cost the others theirs.
    async fn extend_all(
        &self,
        backend: &'static str,
        renewals: &[Renewal],
    ) -> Vec<Result<Extension, BackendError>> {
        let refused = |answer: &Result<_, BackendError>| {
            answer.as_ref().is_err_and(|error| !error.is_transient())
        };
        if renewals.len() > 1 {
            let batch = contained(backend, async { Ok(self.backend.extend(renewals).await) }).await;
            if let Some(answers) = batch.ok().filter(|answers| !answers.iter().all(refused)) {
                return answers;
            }
        }
        let extend_one = |renewal| async move { self.backend.extend_one(renewal).await };
        join_all(renewals.iter().map(|renewal| contained(backend, extend_one(renewal)))).await
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a hold once its backend sees that it is over; returns once it is.
async fn end_when_lost(hold: Arc<Hold>, watch: LossWatch) {
    tokio::select! {
        biased;
        // C8: the backend saw that the hold is over.
        reason = watch => hold.end(reason),
        () = hold.ended_by_someone() => {}
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("holds", &self.holds).finish_non_exhaustive()
    }
}

fn duty_within(hold: &Hold, now: Moment) -> Duration {
    match hold.duty(now) {
        Duty::Over | Duty::Renew => Duration::ZERO,
        Duty::RenewInBatch(within) | Duty::Watch(within) => within,
    }
}

/// Renewals that go in one request, each with its hold.
type Batch = Vec<(Arc<Hold>, Renewal)>;

/// Sorts renewals into batches of holds of one server, whose TTLs are alike: since a batch has one time-out, a
/// server that is silent would cost the holds of another theirs.
fn batches(due: Vec<Arc<Hold>>, server_of: impl Fn(&LockName) -> u64) -> Vec<Batch> {
    let mut alike: BTreeMap<(u64, u32), Batch> = BTreeMap::new();
    for hold in due {
        let magnitude = hold.attempt_limit().as_millis().max(1).ilog2();
        let renewal = hold.begin_renewal();
        let batch = alike.entry((server_of(&renewal.name), magnitude));
        batch.or_default().push((hold, renewal));
    }
    // C12: many holds a request.
    alike.into_values().flat_map(|holds| chunks(holds, BATCH)).collect()
}

fn chunks<T>(items: Vec<T>, size: usize) -> Vec<Vec<T>> {
    let mut items = items.into_iter().peekable();
    let mut chunks = Vec::new();
    while items.peek().is_some() {
        chunks.push(items.by_ref().take(size).collect());
    }
    chunks
}
