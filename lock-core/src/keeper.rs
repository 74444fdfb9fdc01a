//! Renews everything a client holds, and tells what is lost.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::hold::{Duty, Hold, HoldId};
use crate::{
    BackendError, Clock, DistributedLock, Extension, LossWatch, LostReason, Moment, Renewal,
};

/// How many holds are renewed in one call to the backend: enough that ten thousand are a hundred
/// requests, few enough that one of them does not keep a server from its other clients.
const BATCH: usize = 100;

/// How long the keeper sleeps when there is nothing to keep.
const IDLE: Duration = Duration::from_secs(3600);

/// Keeps the holds of one client: renews them at a third of their TTL, in batches, and ends those
/// whose deadline passes. Renewals run beside the deadlines, so that one that hangs delays none.
#[derive(Debug)]
pub(crate) struct Keeper {
    backend: Arc<dyn DistributedLock>,
    clock: Arc<dyn Clock>,
    book: Mutex<Book>,
    changed: Notify,
    has_run: AtomicBool,
}

#[derive(Default)]
struct Book {
    holds: HashMap<HoldId, Arc<Hold>>,
    /// What the backend watches, until the keeper takes it up.
    watches: Vec<(Arc<Hold>, LossWatch)>,
    /// When the keeper looks next by itself.
    looks_at: Option<Moment>,
}

impl Keeper {
    pub(crate) fn new(backend: Arc<dyn DistributedLock>, clock: Arc<dyn Clock>) -> Self {
        let (book, changed, has_run) = Default::default();
        Self { backend, clock, book, changed, has_run }
    }

    /// Takes a hold into keeping.
    pub(crate) fn keep(&self, hold: Arc<Hold>) {
        let watch = self.backend.watch(&hold.lease());
        let now = self.clock.now();
        let due = duty_within(&hold, now);
        let mut book = self.book();
        book.holds.insert(hold.id, hold.clone());
        let in_time = watch.is_none() && book.looks_at.is_some_and(|at| now.until(at) <= due);
        book.watches.extend(watch.map(|watch| (hold, watch)));
        drop(book);
        if !in_time {
            self.changed.notify_one();
        }
    }

    /// Looks at the holds anew, because one of them changed.
    pub(crate) fn look(&self) {
        self.changed.notify_one();
    }

    /// Ends the keeping of a hold.
    pub(crate) fn forget(&self, hold: &Hold) {
        self.book().holds.remove(&hold.id);
    }

    /// Ends the keeping of all holds, and returns them.
    pub(crate) fn forget_all(&self) -> Vec<Arc<Hold>> {
        self.book().holds.drain().map(|(_, hold)| hold).collect()
    }

    /// Keeps, for ever.
    ///
    /// It may be the second to do so: the renewals of one whose runtime ended have no answer.
    pub(crate) async fn run(self: Arc<Self>) {
        if self.has_run.swap(true, Ordering::Relaxed) {
            self.take_over();
        }
        let (mut renewals, mut watches) = (FuturesUnordered::new(), FuturesUnordered::new());
        loop {
            let begun = std::mem::take(&mut self.book().watches);
            watches.extend(begun.into_iter().map(|(hold, watch)| heed(hold, watch)));
            let Sweep { due, next } = self.sweep();
            for batch in batches(due) {
                renewals.push(self.renew(batch));
            }
            tokio::select! {
                () = self.clock.sleep_until(next) => {}
                () = self.changed.notified() => {}
                Some(()) = renewals.next() => {}
                Some(()) = watches.next() => {}
            }
        }
    }

    /// Takes over from a keeper whose runtime ended: what it had under way has no answer.
    fn take_over(&self) {
        let mut book = self.book();
        let holds: Vec<_> = book.holds.values().cloned().collect();
        holds.iter().filter(|hold| hold.is_renewing()).for_each(|hold| hold.renewal_failed(None));
        let watch = |hold: Arc<Hold>| Some((hold.clone(), self.backend.watch(&hold.lease())?));
        book.watches = holds.into_iter().filter_map(watch).collect();
    }

    /// Ends what is over, and collects what is to be renewed.
    fn sweep(&self) -> Sweep {
        let now = self.clock.now();
        let mut book = self.book();
        let (mut due, mut ripe, mut next) = (Vec::new(), Vec::new(), IDLE);
        book.holds.retain(|_, hold| {
            match hold.duty(now) {
                Duty::Over => return false,
                Duty::Renew => due.push(hold.clone()),
                Duty::MayRenew(within) => ripe.push((hold.clone(), within)),
                Duty::Watch(within) => next = next.min(within),
            }
            true
        });
        if due.is_empty() {
            next = ripe.iter().map(|(_, within)| *within).fold(next, Duration::min);
        } else {
            due.extend(ripe.into_iter().map(|(hold, _)| hold));
            // What is being renewed is watched for its deadline from now on.
            next =
                due.iter().map(|hold| now.until(hold.lease().deadline)).fold(next, Duration::min);
        }
        let next = now.after(next);
        book.looks_at = Some(next);
        Sweep { due, next }
    }

    async fn renew(&self, batch: Vec<(Arc<Hold>, Renewal)>) {
        let limit = batch.iter().map(|(hold, _)| hold.attempt_limit()).min().unwrap_or_default();
        let renewals: Vec<Renewal> = batch.iter().map(|(_, renewal)| renewal.clone()).collect();
        let asked = self.clock.now();
        let answers = timeout(limit, self.extend_all(&renewals)).await.unwrap_or_default();
        let mut answers = answers.into_iter();
        for (hold, renewal) in batch {
            match answers.next() {
                Some(Ok(Extension::Extended(granted))) => {
                    hold.renewed(asked, renewal.ttl, granted);
                }
                Some(Ok(Extension::Lost)) => hold.end(LostReason::Evicted),
                Some(Err(error)) => hold.renewal_failed(Some(&error)),
                None => hold.renewal_failed(None),
            }
        }
    }

    /// Extends a batch. If the server refuses it as a whole, each hold is asked for alone, lest one
    /// that it will not extend cost the others theirs.
    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        let answers = self.backend.extend_all(renewals).await;
        let refused = |answer: &Result<_, BackendError>| {
            answer.as_ref().is_err_and(|error| !error.is_transient())
        };
        if renewals.len() < 2 || !answers.iter().all(refused) {
            return answers;
        }
        join_all(renewals.iter().map(|renewal| self.backend.extend(renewal))).await
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a hold once its backend sees that it is over; returns once it is.
async fn heed(hold: Arc<Hold>, watch: LossWatch) {
    tokio::select! {
        reason = watch => hold.end(reason),
        () = hold.ended_by_someone() => {}
    }
}

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Book").field("holds", &self.holds.len()).finish_non_exhaustive()
    }
}

struct Sweep {
    due: Vec<Arc<Hold>>,
    next: Moment,
}

fn duty_within(hold: &Hold, now: Moment) -> Duration {
    match hold.duty(now) {
        Duty::Over | Duty::Renew => Duration::ZERO,
        Duty::MayRenew(within) | Duty::Watch(within) => within,
    }
}

/// Sorts renewals into batches of holds whose TTLs are alike, since a batch has one time-out.
fn batches(due: Vec<Arc<Hold>>) -> Vec<Vec<(Arc<Hold>, Renewal)>> {
    let mut alike: BTreeMap<u32, Vec<(Arc<Hold>, Renewal)>> = BTreeMap::new();
    for hold in due {
        let magnitude = hold.attempt_limit().as_millis().max(1).ilog2();
        let renewal = hold.begin_renewal();
        alike.entry(magnitude).or_default().push((hold, renewal));
    }
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
