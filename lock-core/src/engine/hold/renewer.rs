//! Renews all holds of a client, and reports losses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use tokio::sync::{Notify, watch};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use super::registry::Registry;
use super::{Duty, Hold};
use crate::backend::{DistributedLockExt, Extension, LossWatch};
use crate::engine::client::{Store, attempted, contained};
use crate::model::{
    BackendError, Lease, LockError, LostReason, Moment, OwnerId, Renewal, Renewals,
};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard, locked};

/// Most holds renewed in one call to the backend. Ten thousand holds are then a hundred requests, and one request
/// does not keep a server from its other clients for long.
///
/// A backend that sends a request for each hold gets one hold a call, and [`SINGLE`] calls of a batch at a time. A call
/// has one time-out, so a hundred requests one after the other would all be given up if the last one were late.
const BATCH: usize = 100;

/// Most calls of a batch at a time, if each is for one hold. Its time-out begins with the call, so renewals that wait for
/// their turn are not given up.
const SINGLE: usize = 10;

/// Most holds without an answer that are then renewed alone. If more have none, their server does not answer at all. So
/// many single requests would keep it busy when it comes back.
const ALONE_AT_MOST: usize = 4 * BATCH;

/// Number of holds after which the renewer yields, so that other tasks run and the runtime receives its input: a
/// batch takes long compared with a request.
const AT_A_STRETCH: usize = 10;

/// Time for which the renewer looks out for a next hold before it rests. A client that acquires a lock again and again
/// would otherwise wake the renewer for each hold.
const RESTS_AFTER: Duration = Duration::from_millis(50);

/// A task that ran within this span needs no check.
const LATELY: Duration = Duration::from_secs(2);

/// Renews the holds of one client at a third of their TTL, in batches (C12), and ends those whose deadline passes.
/// Renewals run beside the deadlines, so that a hanging renewal delays no deadline (C9).
#[derive(Debug)]
pub(crate) struct Renewer {
    store: Arc<Store>,
    /// True if each call to the backend is for one hold.
    is_single: bool,
    registry: Mutex<Registry>,
    changed: Notify,
    has_run: AtomicBool,
    /// Time of the task's last run.
    ran_at: watch::Sender<Instant>,
}

impl Renewer {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        let (registry, changed, has_run) = Default::default();
        let (ran_at, _) = watch::channel(Instant::now());
        let is_single = store.backend.capabilities().renewals == Renewals::Single;
        Self { store, is_single, registry, changed, has_run, ran_at }
    }

    /// Renews a hold from now on.
    pub(crate) fn register(&self, hold: Arc<Hold>) {
        let now = hold.began;
        let due = duty_within(&hold, now);
        let mut registry = self.registry();
        registry.holds.put(hold.clone(), now.after(due));
        let in_time = registry.looks_at.is_some_and(|at| now.until(at) <= due);
        drop(registry);
        if self.watch(hold) || !in_time {
            self.changed.notify_one();
        }
    }

    /// Watches for the losses that the backend tells by itself; returns false if it tells none. A panic of the backend
    /// costs only this watch, since the renewals find the loss too.
    fn watch(&self, hold: Arc<Hold>) -> bool {
        // A backend may block or panic, so the registry is not locked here.
        let watch = attempted(self.store.name(), "a backend's watch", || {
            self.store.backend.watch(&hold.lease())
        });
        let watch = watch.flatten();
        let is_watched = watch.is_some();
        self.registry().watches.extend(watch.map(|watch| (hold, watch)));
        is_watched
    }

    /// Lets a lease be attached, until the drop of the result: earlier guards of it give nothing back from now on.
    pub(crate) fn attaching(&self, lease: &Lease) -> Result<Arc<OwnerId>, LockError> {
        self.registry().attaching(lease)
    }

    /// Notes that a lease was attached.
    pub(crate) fn attached(&self, hold: &Arc<Hold>) {
        self.registry().attached(hold);
    }

    /// Looks at a changed hold again.
    pub(crate) fn look_at(&self, hold: &Arc<Hold>) {
        self.registry().holds.put_off(hold, self.store.now());
        self.changed.notify_one();
    }

    /// Stops renewing a hold.
    pub(crate) fn unregister(&self, hold: &Arc<Hold>) {
        self.registry().remove(hold);
    }

    /// Stops renewing all holds, and returns them.
    pub(crate) fn unregister_all(&self) -> Vec<Arc<Hold>> {
        self.registry().holds.take_all()
    }

    /// Returns true if the renewer's task has run lately.
    pub(crate) fn ran_lately(&self) -> bool {
        self.still_for() < LATELY
    }

    /// Wakes the renewer's task, and waits until it runs.
    pub(crate) async fn runs(&self) {
        let mut ran = self.ran_at.subscribe();
        self.changed.notify_one();
        // The sender lives as long as `self`.
        let _ = ran.changed().await;
    }

    /// Returns the time since the renewer's task last ran.
    pub(crate) fn still_for(&self) -> Duration {
        self.ran_at.borrow().elapsed()
    }

    /// Renews without end. In a fork that drives a runtime of the first process, the renewals stay with that process.
    ///
    /// An earlier run may have panicked, or its runtime may have ended. The renewals of that run have no answer.
    pub(crate) async fn run(self: Arc<Self>) {
        if self.has_run.swap(true, Ordering::Relaxed) {
            self.take_over();
        }
        let (mut renewals, mut watches) = (FuturesUnordered::new(), FuturesUnordered::new());
        while self.store.process.is_this() {
            self.ran_at.send_replace(Instant::now());
            let begun = std::mem::take(&mut self.registry().watches);
            watches.extend(begun.into_iter().map(|(hold, watch)| end_when_lost(hold, watch)));
            let (due, over) = self.take_due();
            // A log may block, so the registry is not locked here.
            over.iter().for_each(|hold| _ = hold.lost_reason());
            let batches = self.batches(due);
            renewals.extend(batches.into_iter().map(|batch| self.renew(batch)));
            // Each of these gets its turn: one round takes everything that is due.
            tokio::select! {
                biased;
                Some(()) = watches.next() => {}
                Some(()) = renewals.next() => {}
                () = self.changed.notified() => {}
                () = self.sleep_until_due() => {}
            }
        }
    }

    /// Takes over from a renewer that panicked or whose runtime ended: its renewals in flight have no answer.
    fn take_over(&self) {
        let mut registry = self.registry();
        let (holds, now): (Vec<_>, _) =
            (registry.holds.holds().cloned().collect(), self.store.now());
        for hold in &holds {
            registry.holds.put_off(hold, now);
        }
        let given_up: Vec<_> = holds.iter().filter(|hold| hold.is_renewing()).cloned().collect();
        given_up.iter().for_each(|hold| hold.renewal_given_up());
        registry.watches.clear();
        drop(registry);
        holds.into_iter().for_each(|hold| _ = self.watch(hold));
        if !given_up.is_empty() {
            self.store.telemetry.renewals_given_up(given_up.len());
        }
    }

    /// Sleeps until something is due. If nothing is held then, it sleeps without end, so an idle client costs nothing.
    ///
    /// A release does not shorten the sleep.
    async fn sleep_until_due(&self) {
        let rests_at = self.store.now().after(RESTS_AFTER);
        if let Some(next) = self.looks_at(Some(rests_at)) {
            self.store.options.clock.sleep_until(next).await;
        }
        if self.looks_at(None).is_none() {
            std::future::pending().await
        }
    }

    /// Notes and returns the time of the next look: `idle` if nothing is held.
    fn looks_at(&self, idle: Option<Moment>) -> Option<Moment> {
        let mut registry = self.registry();
        registry.looks_at = registry.holds.next().or(idle);
        registry.looks_at
    }

    /// Returns the holds to renew now, and those that are over, which it removes.
    fn take_due(&self) -> (Vec<Arc<Hold>>, Vec<Arc<Hold>>) {
        let now = self.store.now();
        let holds = &mut self.registry().holds;
        let (mut due, mut over) = (Vec::new(), Vec::new());
        for hold in holds.due(now) {
            match hold.duty(now) {
                Duty::Over => {
                    holds.remove(hold.owner);
                    over.push(hold);
                }
                Duty::Renew => due.push(hold),
                Duty::RenewInBatch(within) | Duty::Watch(within) => {
                    holds.put_off_for(&hold, now, within);
                }
            }
        }
        // C12: a request also takes holds that would be due soon.
        let room = due.len().next_multiple_of(BATCH) - due.len();
        let may_join = |hold: &Arc<Hold>| matches!(hold.duty(now), Duty::RenewInBatch(_));
        due.extend(holds.after(now).take(BATCH).filter(may_join).take(room));
        for hold in &due {
            // The next look at a hold in renewal is at its deadline.
            holds.put_off(hold, hold.deadline());
        }
        (due, over)
    }

    /// Sorts renewals into batches of one server and of similar TTLs. A batch has one time-out, so a silent server would
    /// otherwise cost holds of another server.
    ///
    /// A hold whose last renewal had no answer is renewed alone: the server may be unable to answer for another hold of
    /// that batch, for example while an operator keeps its row locked.
    fn batches(&self, due: Vec<Arc<Hold>>) -> Vec<Batch> {
        let leaves_batch = self.splits_batches(&due);
        let (mut batches, mut alike) = (Vec::new(), BTreeMap::<(u64, u32), Batch>::new());
        for hold in due {
            let is_alone = leaves_batch && hold.has_no_answer();
            let magnitude = hold.attempt_limit().as_millis().max(1).ilog2();
            let renewal = hold.begin_renewal();
            if is_alone {
                batches.push(vec![(hold, renewal)]);
            } else {
                let batch = alike.entry((self.store.backend.server_of(&renewal.name), magnitude));
                batch.or_default().push((hold, renewal));
            }
        }
        // C12: many holds in one request.
        batches.extend(alike.into_values().flat_map(|holds| chunks(holds, BATCH)));
        batches
    }

    /// Returns true if some of these holds had no answer, and not too many of all.
    fn splits_batches(&self, due: &[Arc<Hold>]) -> bool {
        let has_no_answer = |hold: &&Arc<Hold>| hold.has_no_answer();
        due.iter().any(|hold| hold.has_no_answer())
            && self.registry().holds.holds().filter(has_no_answer).nth(ALONE_AT_MOST).is_none()
    }

    async fn renew(&self, batch: Batch) {
        if self.is_single {
            let alone = |one| self.renew_together(vec![one]);
            stream::iter(batch).for_each_concurrent(SINGLE, alone).await;
        } else {
            self.renew_together(batch).await;
        }
    }

    async fn renew_together(&self, batch: Batch) {
        let limit = batch.iter().map(|(hold, _)| hold.attempt_limit()).min().unwrap_or_default();
        let renewals: Vec<Renewal> = batch.iter().map(|(_, renewal)| renewal.clone()).collect();
        let asked = self.store.now();
        let backend = self.store.name();
        let answers = timeout(limit, self.extend_all(backend, &renewals)).await.unwrap_or_default();
        let (mut answers, mut failed) = (answers.into_iter(), Vec::new());
        for (place, (hold, renewal)) in batch.into_iter().enumerate() {
            if place % AT_A_STRETCH == AT_A_STRETCH - 1 {
                yield_now().await;
            }
            match answers.next() {
                Some(Ok(Extension::Extended(granted))) => {
                    hold.renewed(asked, renewal.ttl, granted);
                }
                Some(Ok(Extension::Lost)) => hold.end(LostReason::Evicted),
                answer => {
                    let error = answer.and_then(Result::err);
                    let error = error.unwrap_or_else(|| BackendError::no_answer(backend, limit));
                    hold.renewal_failed(&error);
                    failed.push((hold.clone(), error));
                }
            }
            self.registry().holds.put_off(&hold, self.store.now());
        }
        if let Some((hold, error)) = failed.first() {
            let holds = self.registry().holds.len();
            self.store.telemetry.renewals_fail(failed.len(), holds, &hold.name, error);
        }
    }

    /// Extends a batch. If the server refuses the batch, or the backend panics, each hold is extended alone. So a
    /// hold that cannot be extended does no harm to the others.
    async fn extend_all(
        &self,
        backend: &'static str,
        renewals: &[Renewal],
    ) -> Vec<Result<Extension, BackendError>> {
        let refused = |answer: &Result<_, BackendError>| {
            answer.as_ref().is_err_and(|error| !error.is_transient())
        };
        if renewals.len() > 1 {
            let batch =
                contained(backend, async { Ok(self.store.backend.extend(renewals).await) }).await;
            if let Some(answers) = batch.ok().filter(|answers| !answers.iter().all(refused)) {
                return answers;
            }
        }
        let extend_one = |renewal| async move { self.store.backend.extend_one(renewal).await };
        join_all(renewals.iter().map(|renewal| contained(backend, extend_one(renewal)))).await
    }

    pub(in crate::engine) fn registry(&self) -> MutexGuard<'_, Registry> {
        locked(&self.registry)
    }
}

/// Ends a hold once its backend sees that it is over; returns when the hold is over.
async fn end_when_lost(hold: Arc<Hold>, watch: LossWatch) {
    tokio::select! {
        biased;
        // C8: the backend saw that the hold is over.
        () = watch => hold.end(LostReason::Evicted),
        () = hold.ended_by_someone() => {}
    }
}

fn duty_within(hold: &Hold, now: Moment) -> Duration {
    match hold.duty(now) {
        Duty::Over | Duty::Renew => Duration::ZERO,
        Duty::RenewInBatch(within) | Duty::Watch(within) => within,
    }
}

/// Renewals of one request, each with its hold.
type Batch = Vec<(Arc<Hold>, Renewal)>;

fn chunks<T>(items: Vec<T>, size: usize) -> Vec<Vec<T>> {
    let mut items = items.into_iter().peekable();
    let mut chunks = Vec::new();
    while items.peek().is_some() {
        chunks.push(items.by_ref().take(size).collect());
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LockClient, MemoryBackend};

    #[tokio::test(start_paused = true)]
    async fn r1_a_lock_that_is_taken_again_and_again_wakes_the_renewer_once() {
        let client = LockClient::new(MemoryBackend::new());
        let mut ran = client.shared.renewer.ran_at.subscribe();
        let mut wakes = 0;
        for _ in 0..100 {
            let guard = client.acquire("a").await.expect("a free lock");
            guard.release().await.expect("an answer");
            // The renewer finds the hold released.
            yield_now().await;
            wakes += usize::from(ran.has_changed().expect("it is alive"));
            ran.mark_unchanged();
        }
        assert!(wakes <= 2, "it woke {wakes} times");
    }
}
