//! Writes of many callers that go to the server as one.
//!
//! What a small write costs is its way through the cluster's log, and its request. So what many callers write at the
//! same time goes as one transaction of which each is a part. Each compares by itself, and has an answer of its own.
//!
//! ```text
//!   acquire a ──┐                                       ┌──▶ a: its token
//!   release b ──┼──▶ one transaction ──▶ log ──▶ store ─┼──▶ b: released
//!   acquire c ──┘                                       └──▶ c: its place in the queue
//! ```
//!
//! One that is alone goes at once, and as it is. While others are under way it gathers with those that are asked for at
//! the same time. Nobody but those who wait for the answer drives the request: the last of them to leave takes it
//! along.
//!
//! - The server compares for all parts before it carries out the first one. So of each lock there is one part at most:
//!   of two claims on a free lock both would find it free.
//! - Claims that are granted together have one token, each for a lock of its own (C22).
//! - For a caller that has left nothing is written. If it leaves after that, the write comes before the withdrawal of
//!   its claim, or finds its mark (C19).
//! - If the server refuses the whole, each goes alone, and succeeds or fails by itself.

use std::collections::HashSet;
use std::mem::take;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use etcd_client::{Txn, TxnOp};
use futures_util::future::{BoxFuture, FutureExt, Shared, WeakShared};
use lock_core::{BackendError, Outcome};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

use crate::answer::Answer;
use crate::error::unreadable;

/// How many writes are one transaction. The server takes 128 operations, and 1.5 MiB, which so many do not reach whatever
/// the names of their locks.
const MOST: usize = 32;

/// How many such transactions are under way. With fewer each is larger, and costs less for each part; with more
/// they wait less for each other.
const UNDER_WAY: usize = 2;

type Answers = BoxFuture<'static, Result<Arc<[Answer]>, BackendError>>;

/// What is to be written.
pub(crate) enum Write {
    Txn(Txn),
    /// Deletes a key. Alone it costs the server less than a transaction does.
    Deletion(String),
}

impl From<Write> for TxnOp {
    fn from(write: Write) -> Self {
        match write {
            Write::Txn(txn) => Self::txn(txn),
            Write::Deletion(key) => Self::delete(key, None),
        }
    }
}

/// The writes over one connection that may go as one.
pub(crate) struct Together {
    outstanding: AtomicUsize,
    under_way: Arc<Semaphore>,
    open: Mutex<Option<Open>>,
}

/// What others may join, for as long as somebody waits for it.
struct Open {
    parts: Arc<Mutex<Parts>>,
    answers: WeakShared<Answers>,
}

struct Part {
    write: Write,
    /// It is gone if the caller has left.
    caller: Weak<()>,
}

#[derive(Default)]
struct Parts {
    all: Vec<Part>,
    /// What the keys of each start with.
    locks: HashSet<String>,
    is_sent: bool,
}

impl Default for Together {
    fn default() -> Self {
        let under_way = Arc::new(Semaphore::new(UNDER_WAY));
        Self { outstanding: AtomicUsize::new(0), under_way, open: Mutex::default() }
    }
}

impl Together {
    /// Writes on the keys that start with `lock`, alone or with others, by `send`.
    pub(crate) async fn carry_out<F>(
        &self,
        lock: &str,
        write: impl Fn() -> Write,
        send: F,
    ) -> Result<Answer, BackendError>
    where
        F: Fn(Write) -> BoxFuture<'static, Result<Answer, BackendError>> + Clone + Send + 'static,
    {
        let outstanding = Outstanding::begin(&self.outstanding);
        if outstanding.is_alone {
            return send(write()).await;
        }
        let caller = Arc::new(());
        let part = Part { write: write(), caller: Arc::downgrade(&caller) };
        let (answers, place) = self.join(lock, part, &send);
        match answers.await {
            Ok(answers) => answers.get(place).cloned().ok_or_else(|| unreadable("a part's answer")),
            Err(error) if is_refusal(&error) => send(write()).await,
            Err(error) => Err(error),
        }
    }

    /// Where the answers come to the transaction of which this is a part, and which part it is.
    fn join<F>(&self, lock: &str, part: Part, send: &F) -> (Shared<Answers>, usize)
    where
        F: Fn(Write) -> BoxFuture<'static, Result<Answer, BackendError>> + Clone + Send + 'static,
    {
        let mut open = locked(&self.open);
        if let Some(Open { parts, answers }) = &*open
            && let Some(answers) = answers.upgrade()
            // Held until the part is in, since the others may be sent at any moment.
            && let mut parts = locked(parts)
            && parts.admits(lock)
        {
            return (answers, parts.add(lock, part));
        }
        let mut parts = Parts::default();
        let (place, parts) = (parts.add(lock, part), Arc::new(Mutex::new(parts)));
        let answers = answers(parts.clone(), self.under_way.clone(), send.clone()).boxed().shared();
        *open = answers.downgrade().map(|answers| Open { parts, answers });
        (answers, place)
    }
}

/// Sends a transaction of many when its turn has come.
async fn answers<F>(
    parts: Arc<Mutex<Parts>>,
    under_way: Arc<Semaphore>,
    send: F,
) -> Result<Arc<[Answer]>, BackendError>
where
    F: Fn(Write) -> BoxFuture<'static, Result<Answer, BackendError>> + Send,
{
    let _turn = under_way.acquire().await;
    // Those that are about to ask come along.
    yield_now().await;
    let writes = locked(&parts).send();
    match <[Write; 1]>::try_from(writes) {
        Ok([alone]) => Ok([send(alone).await?].into()),
        Err(writes) => {
            let parts: Vec<TxnOp> = writes.into_iter().map(TxnOp::from).collect();
            Ok(send(Write::Txn(Txn::new().and_then(parts))).await?.of_each()?.into())
        }
    }
}

/// Whether the server carried out nothing, and says so: one of the parts may be why.
fn is_refusal(error: &BackendError) -> bool {
    error.outcome() == Outcome::NotApplied || !error.is_transient()
}

impl Parts {
    fn admits(&self, lock: &str) -> bool {
        // S3: two claims on one lock would both find it free.
        !self.is_sent && self.all.len() < MOST && !self.locks.contains(lock)
    }

    fn add(&mut self, lock: &str, part: Part) -> usize {
        self.locks.insert(lock.to_owned());
        self.all.push(part);
        self.all.len() - 1
    }

    fn send(&mut self) -> Vec<Write> {
        self.is_sent = true;
        take(&mut self.all).into_iter().map(Part::into_write).collect()
    }
}

impl Part {
    /// C19: for a caller that has left nothing is written. The withdrawal of its claim may have gone by.
    fn into_write(self) -> Write {
        match self.caller.strong_count() {
            0 => Write::Txn(Txn::new()),
            _ => self.write,
        }
    }
}

/// A write that is under way, or waits to be.
struct Outstanding<'a> {
    count: &'a AtomicUsize,
    is_alone: bool,
}

impl<'a> Outstanding<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        Self { count, is_alone: count.fetch_add(1, Ordering::AcqRel) == 0 }
    }
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    fn nothing() -> Write {
        Write::Txn(Txn::new())
    }

    fn deletion(caller: &Arc<()>) -> Part {
        Part { write: Write::Deletion("a key".into()), caller: Arc::downgrade(caller) }
    }

    #[test]
    fn s03_no_two_of_one_lock_are_one_transaction() {
        let (mut parts, caller) = (Parts::default(), Arc::new(()));
        assert_eq!(parts.add("a", deletion(&caller)), 0);
        assert!(!parts.admits("a"));
        assert!(parts.admits("b"));
        assert_eq!(parts.add("b", deletion(&caller)), 1);
        assert_eq!(parts.send().len(), 2);
        assert!(!parts.admits("c"), "it is sent");
    }

    #[test]
    fn c19_nothing_is_written_for_a_caller_that_has_left() {
        let (mut parts, stays, leaves) = (Parts::default(), Arc::new(()), Arc::new(()));
        let places = [("a", &leaves), ("b", &stays)];
        let places = places.map(|(lock, caller)| parts.add(lock, deletion(caller)));
        assert_eq!(places, [0, 1]);
        drop(leaves);
        let writes = parts.send().into_iter().map(|write| matches!(write, Write::Deletion(_)));
        assert_eq!(writes.collect::<Vec<_>>(), [false, true], "each in its place");
    }

    /// C17: callers that left do not keep others from the server.
    #[tokio::test(start_paused = true)]
    async fn c17_those_who_leave_give_their_turn_back() {
        let together = Together::default();
        let silent = |_| std::future::pending().boxed();
        let ask = async |lock: &str| {
            let asked = together.carry_out(lock, nothing, silent);
            timeout(LIMIT, asked).await.is_err()
        };
        assert!(tokio::join!(ask("a"), ask("b"), ask("c"), ask("b")) == (true, true, true, true));
        assert_eq!(together.under_way.available_permits(), UNDER_WAY);
        assert_eq!(together.outstanding.load(Ordering::Acquire), 0);
        let unread = |_| std::future::ready(Err(unreadable("nothing"))).boxed();
        let asked = timeout(LIMIT, together.carry_out("a", nothing, unread));
        assert!(asked.await.is_ok_and(|answer| answer.is_err()));
    }

    /// Which of them the server refuses is not told.
    #[tokio::test]
    async fn what_is_refused_as_a_whole_goes_alone() {
        let (together, sent) = (Together::default(), Arc::new(AtomicUsize::new(0)));
        let counted = sent.clone();
        let refuse = move |_| {
            counted.fetch_add(1, Ordering::AcqRel);
            async { Err(unreadable("nothing")) }.boxed()
        };
        // The first is under way alone, until the others have joined.
        let first = together.carry_out("a", nothing, |_| {
            async {
                yield_now().await;
                Err(unreadable("nothing"))
            }
            .boxed()
        });
        let ask = |lock: &'static str| together.carry_out(lock, nothing, refuse.clone());
        let (first, b, c) = tokio::join!(first, ask("b"), ask("c"));
        assert!(first.is_err() && b.is_err() && c.is_err());
        assert_eq!(sent.load(Ordering::Acquire), 3, "one for both, and one for each");
    }
}
