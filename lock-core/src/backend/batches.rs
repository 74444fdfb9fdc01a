//! Requests of many callers that go to a server as one.
//!
//! Most of what a lock costs is its request and its commit. So what many callers ask of different locks at the same time
//! goes as one request, as in the group commit of a database. Each has an answer of its own.
//!
//! ```text
//!   acquire a ──┐                                        ┌──▶ a: its token
//!   acquire b ──┼──▶ one batch of a, b, c ──▶ server ────┼──▶ b: left ──▶ acquire b
//!   acquire c ──┘                                        └──▶ c: its token
//! ```

use std::fmt;
use std::future::poll_fn;
use std::mem::take;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, Shared, WeakShared};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use crate::{BackendError, Outcome};

/// Most requests in a batch.
const MOST: usize = 32;

/// Most batches under way. Fewer make each batch larger and each part cheaper; more make the batches wait less for each
/// other.
const UNDER_WAY: usize = 2;

/// Longest wait of a batch for its turn, and the interval at which its callers look at it.
///
/// C17: only its callers drive a batch. If nobody polls them, it keeps its turn for ever. So others go on without a turn.
/// The wake-up of a caller may be lost: with another caller that was woken and left, or with the runtime of that one.
const MOMENT: Duration = Duration::from_millis(50);

/// The server's answer to each part of a batch; `None` to a part that it left out.
type Answers<A> = Vec<Option<A>>;

type Answering<A> = BoxFuture<'static, Result<Arc<Answers<A>>, BackendError>>;

/// Gathers the requests of one sort that go to one server, `Q`, each of which has an answer `A`.
///
/// A request that comes alone goes at once, and as it is. While others are under way, it gathers with those that come at
/// the same time: at most 32, and no two of one lock, since of two claims on a free lock both would find it free (S3). At
/// most two batches are under way, unless one takes longer than 50 ms.
///
/// Those who wait for the answers drive the batch, whichever of them is there: it ends with the last of them. If the server
/// refuses the whole, each goes alone, and succeeds or fails by itself.
///
/// ```
/// use std::sync::Arc;
/// use futures_util::FutureExt;
/// use lock_core::BackendError;
/// use lock_core::backend::Batches;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BackendError> {
/// /// A server that doubles numbers, except for odd ones in a batch.
/// async fn double(number: u32) -> Result<u32, BackendError> {
///     tokio::task::yield_now().await;
///     Ok(2 * number)
/// }
/// async fn double_all(numbers: Vec<u32>) -> Result<Vec<Option<u32>>, BackendError> {
///     Ok(numbers.iter().map(|number| number.is_multiple_of(2).then_some(2 * number)).collect())
/// }
///
/// let batches = Batches::default();
/// let ask = |name, number| {
///     batches.ask(name, move || number, double(number), |all| double_all(all).boxed())
/// };
/// assert_eq!(tokio::try_join!(ask("a", 1), ask("b", 2), ask("c", 3))?, (2, 4, 6));
/// # Ok(())
/// # }
/// ```
pub struct Batches<Q, A> {
    /// Each request that is under way, or waits to be, has a share of it.
    outstanding: Arc<()>,
    under_way: Arc<Semaphore>,
    open: Mutex<Option<Open<Q, A>>>,
}

/// A batch that others may join, for as long as somebody waits for it.
struct Open<Q, A> {
    parts: Arc<Mutex<Parts<Q>>>,
    answers: WeakShared<Answering<A>>,
}

/// The questions of a batch.
struct Parts<Q> {
    all: Vec<Part<Q>>,
    is_sent: bool,
}

struct Part<Q> {
    lock: String,
    question: Q,
    /// Dangling once the caller has left.
    caller: Weak<()>,
}

impl<Q, A> Batches<Q, A>
where
    Q: Send + 'static,
    A: Clone + Send + Sync + 'static,
{
    /// Asks `question` about `lock`: with others if there are any, by `together`, and otherwise by `alone`.
    ///
    /// `together` answers each of its questions, in their order, or leaves it with `None`. What it leaves goes by
    /// `alone`. The `together` of the caller that came first is the one that is used.
    ///
    /// # Errors
    /// Those of `alone`, and those of `together` after which it is not known whether the request was carried out.
    ///
    /// # Cancel safety
    /// After a drop the request may be carried out, or not. It is left out if its batch was not sent by then. If it was, the
    /// request comes before the withdrawal of its claim, or finds its mark (C19).
    pub async fn ask<F>(
        &self,
        lock: &str,
        question: impl FnOnce() -> Q,
        alone: impl Future<Output = Result<A, BackendError>>,
        together: F,
    ) -> Result<A, BackendError>
    where
        F: FnOnce(Vec<Q>) -> BoxFuture<'static, Result<Vec<Option<A>>, BackendError>>,
        F: Send + 'static,
    {
        let outstanding = self.outstanding.clone();
        // Two that begin at the same moment may take each other for company.
        let is_alone = Arc::strong_count(&outstanding) == 2;
        let refusal = match is_alone {
            true => None,
            false => match self.ask_in_company(lock, question(), together).await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => None,
                // One of the parts may be why.
                Err(error) if is_refusal(&error) => Some(error),
                Err(error) => return Err(error),
            },
        };
        alone.await.map_err(|error| error.told_after(refusal))
    }

    async fn ask_in_company<F>(
        &self,
        lock: &str,
        question: Q,
        together: F,
    ) -> Result<Option<A>, BackendError>
    where
        F: FnOnce(Vec<Q>) -> BoxFuture<'static, Result<Answers<A>, BackendError>> + Send + 'static,
    {
        let caller = Arc::new(());
        let part = Part { lock: lock.to_owned(), question, caller: Arc::downgrade(&caller) };
        let (mut answers, place) = self.join(part, together);
        loop {
            if let Ok(answers) = timeout(MOMENT, &mut answers).await {
                return Ok(answers?.get(place).cloned().flatten());
            }
        }
    }

    /// Where the answers come to the batch of which this is a part, and which part it is.
    fn join<F>(&self, part: Part<Q>, together: F) -> (Shared<Answering<A>>, usize)
    where
        F: FnOnce(Vec<Q>) -> BoxFuture<'static, Result<Answers<A>, BackendError>> + Send + 'static,
    {
        let mut open = locked(&self.open);
        if let Some(Open { parts, answers }) = &*open
            && let Some(answers) = answers.upgrade()
            // Held until the part is in, since the others may be sent at any moment.
            && let mut parts = locked(parts)
            && parts.admits(&part.lock)
        {
            parts.all.push(part);
            return (answers, parts.all.len() - 1);
        }
        let parts = Arc::new(Mutex::new(Parts { all: vec![part], is_sent: false }));
        let answers = answers(parts.clone(), self.under_way.clone(), together).boxed().shared();
        *open = answers.downgrade().map(|answers| Open { parts, answers });
        (answers, 0)
    }
}

/// Sends a batch when its turn has come.
async fn answers<Q, A: Clone>(
    parts: Arc<Mutex<Parts<Q>>>,
    under_way: Arc<Semaphore>,
    together: impl FnOnce(Vec<Q>) -> BoxFuture<'static, Result<Answers<A>, BackendError>>,
) -> Result<Arc<Answers<A>>, BackendError> {
    let _turn = turn(&under_way).await;
    // Lets tasks that are about to ask join the batch.
    yield_now().await;
    let (mut answers, places, questions) = locked(&parts).send();
    for (place, answer) in places.into_iter().zip(together(questions).await?) {
        if let Some(kept) = answers.get_mut(place) {
            *kept = answer;
        }
    }
    Ok(Arc::new(answers))
}

/// Waits for a turn, but not for long. No timer wakes it, which would belong to the runtime of one caller: each of them
/// looks again by itself.
async fn turn(under_way: &Semaphore) -> Option<SemaphorePermit<'_>> {
    let (since, mut free) = (Instant::now(), pin!(under_way.acquire()));
    poll_fn(|context| match free.as_mut().poll(context) {
        Poll::Ready(permit) => Poll::Ready(permit.ok()),
        Poll::Pending if since.elapsed() >= MOMENT => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Returns true if the server refuses the batch as a whole.
fn is_refusal(error: &BackendError) -> bool {
    error.outcome() == Outcome::NotApplied || !error.is_transient()
}

impl<Q> Parts<Q> {
    fn admits(&self, lock: &str) -> bool {
        let is_in = self.all.iter().any(|part| part.lock == lock);
        !self.is_sent && self.all.len() < MOST && !is_in
    }

    /// Returns the questions and the numbers of their parts, with room for the answers to all parts.
    ///
    /// C19: nothing is asked for a caller that has left. The withdrawal of its claim may have gone by.
    fn send<A: Clone>(&mut self) -> (Answers<A>, Vec<usize>, Vec<Q>) {
        self.is_sent = true;
        let parts = take(&mut self.all);
        let none = vec![None; parts.len()];
        let wanted = parts.into_iter().enumerate();
        let wanted = wanted.filter(|(_, part)| part.caller.strong_count() > 0);
        let (places, questions) = wanted.map(|(place, part)| (place, part.question)).unzip();
        (none, places, questions)
    }
}

impl<Q, A> Default for Batches<Q, A> {
    fn default() -> Self {
        let (outstanding, open) = Default::default();
        Self { outstanding, under_way: Arc::new(Semaphore::new(UNDER_WAY)), open }
    }
}

impl<Q, A> fmt::Debug for Batches<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outstanding = Arc::strong_count(&self.outstanding) - 1;
        f.debug_struct("Batches").field("outstanding", &outstanding).finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::Barrier;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    type Told = BoxFuture<'static, Result<Answers<u8>, BackendError>>;

    fn refusal() -> BackendError {
        BackendError::permanent("a test", Outcome::NotApplied, "nothing is carried out", "refused")
    }

    fn never(_: Vec<u8>) -> Told {
        pending().boxed()
    }

    fn parts<const N: usize>(all: [(&str, u8, &Arc<()>); N]) -> Parts<u8> {
        let part = |(lock, question, caller): (&str, u8, &Arc<()>)| Part {
            lock: lock.to_owned(),
            question,
            caller: Arc::downgrade(caller),
        };
        Parts { all: all.map(part).into(), is_sent: false }
    }

    #[test]
    fn c19_nothing_is_asked_for_a_caller_that_has_left() {
        let (stays, leaves) = (Arc::new(()), Arc::new(()));
        let mut parts = parts([("a", 1, &leaves), ("b", 2, &stays)]);
        drop(leaves);
        let (answers, places, questions) = parts.send::<u8>();
        assert_eq!((answers.len(), places, questions), (2, vec![1], vec![2]));
        assert!(!parts.admits("c"), "it is sent");
    }

    #[test]
    fn s03_no_two_parts_of_a_batch_are_about_one_lock() {
        let parts = parts([("a", 1, &Arc::new(()))]);
        assert!(!parts.admits("a"));
        assert!(parts.admits("b"));
    }

    /// C17: callers that left do not keep others from the server.
    #[tokio::test(start_paused = true)]
    async fn c17_those_who_leave_give_their_turn_back() {
        let batches = Batches::<u8, u8>::default();
        let ask = async |lock: &str| {
            timeout(LIMIT, batches.ask(lock, || 0, pending(), never)).await.is_err()
        };
        assert!(tokio::join!(ask("a"), ask("b"), ask("c"), ask("b")) == (true, true, true, true));
        assert_eq!(batches.under_way.available_permits(), UNDER_WAY);
        assert_eq!(Arc::strong_count(&batches.outstanding), 1);
    }

    /// C17: callers whom nobody polls do not keep others from the server.
    #[tokio::test(start_paused = true)]
    async fn c17_those_who_are_not_polled_hold_nobody_up() {
        let batches = Batches::<u8, u8>::default();
        let ask = || batches.ask("a", || 0, pending(), never);
        let (mut alone, mut one, mut other) = (pin!(ask()), pin!(ask()), pin!(ask()));
        // Each begins, and is sent.
        for _ in 0..2 {
            assert!(alone.as_mut().now_or_never().is_none());
            assert!(one.as_mut().now_or_never().is_none());
            assert!(other.as_mut().now_or_never().is_none());
        }
        assert_eq!(batches.under_way.available_permits(), 0);
        let answer = timeout(LIMIT, batches.ask("a", || 1, pending(), echo)).await;
        assert!(matches!(answer, Ok(Ok(1))), "{answer:?}");
    }

    /// A batch that has no turn, and the company that lets it be one.
    fn without_a_turn(batches: &Batches<u8, u8>) -> impl Sized + use<> {
        let turns = batches.under_way.clone().try_acquire_many_owned(UNDER_WAY as u32);
        (turns.expect("nobody is there"), batches.outstanding.clone())
    }

    fn echo(asked: Vec<u8>) -> Told {
        ready(Ok(asked.into_iter().map(Some).collect())).boxed()
    }

    /// C17: a batch does not end with the runtime of the caller that came first.
    #[test]
    fn c17_a_runtime_that_ends_takes_no_other_caller_along() {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build();
        let (ends, stays) = (runtime().expect("a runtime"), runtime().expect("a runtime"));
        let batches = Batches::<u8, u8>::default();
        let _no_turn = without_a_turn(&batches);
        let ask = |lock, question| batches.ask(lock, move || question, pending(), echo);
        let (mut first, mut second) = (pin!(ask("a", 1)), pin!(ask("b", 2)));
        ends.block_on(async { assert!(first.as_mut().now_or_never().is_none()) });
        stays.block_on(async { assert!(second.as_mut().now_or_never().is_none()) });
        drop(ends);
        let answer = stays.block_on(async { timeout(LIMIT, second).await });
        assert!(matches!(answer, Ok(Ok(2))), "{answer:?}");
    }

    /// C17: who was woken for all may be gone before it looks.
    #[tokio::test(start_paused = true)]
    async fn c17_a_lost_wake_up_costs_a_moment() {
        let (is_sent, is_there) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (sent, there) = (is_sent.clone(), is_there.clone());
        let together = move |_| -> Told {
            // Wakes nobody.
            poll_fn(move |_| match there.load(Ordering::Relaxed) {
                true => Poll::Ready(Ok(vec![Some(1)])),
                false => {
                    sent.store(true, Ordering::Relaxed);
                    Poll::Pending
                }
            })
            .boxed()
        };
        let asking = tokio::spawn(async move {
            let batches = Batches::<u8, u8>::default();
            let _company = batches.outstanding.clone();
            batches.ask("a", || 0, pending(), together).await
        });
        while !is_sent.load(Ordering::Relaxed) {
            yield_now().await;
        }
        is_there.store(true, Ordering::Relaxed);
        assert!(matches!(timeout(LIMIT, asking).await, Ok(Ok(Ok(1)))));
    }

    /// C15: the whole may have been carried out, though it is certain that the repeat was not.
    #[tokio::test]
    async fn c15_a_refusal_amid_the_work_is_told() {
        let batches = Batches::<u8, u8>::default();
        let _company = batches.outstanding.clone();
        let unread = || BackendError::permanent("a test", Outcome::Unknown, "an answer", "unread");
        let tell = move |_: Vec<u8>| -> Told { ready(Err(unread())).boxed() };
        let answer = batches.ask("a", || 0, ready(Err(refusal())), tell).await;
        assert_eq!(answer.expect_err("it failed twice").outcome(), Outcome::Unknown);
    }

    /// The server refuses one, and does not say which. The rest of the batch goes alone as well.
    #[tokio::test]
    async fn what_is_left_or_refused_goes_alone() {
        for told in [Ok(vec![Some(1), None]), Err(refusal())] {
            let batches = Batches::<u8, u8>::default();
            let tell = || {
                let told = told.clone();
                |_: Vec<u8>| -> Told { ready(told).boxed() }
            };
            // The first is under way alone until the others have gone alone, or have their answer.
            let all_asked = Barrier::new(2);
            let first = async {
                all_asked.wait().await;
                Ok(9)
            };
            let others = async {
                let ask = |lock| batches.ask(lock, || 0, ready(Ok(2)), tell());
                let (b, c) = tokio::join!(ask("b"), ask("c"));
                all_asked.wait().await;
                (b.ok(), c.ok())
            };
            let (first, others) = tokio::join!(batches.ask("a", || 0, first, never), others);
            assert_eq!(first.ok(), Some(9));
            assert_eq!(others, (Some(if told.is_ok() { 1 } else { 2 }), Some(2)));
        }
    }

    /// Its fate is not known, so it does not go once more.
    #[tokio::test]
    async fn what_is_not_known_is_told() {
        let batches = Batches::<u8, u8>::default();
        let lost = || BackendError::transient("a test", Outcome::Unknown, "an answer", "lost");
        let mut first = pin!(batches.ask("a", || 0, pending(), never));
        assert!(first.as_mut().now_or_never().is_none());
        let tell = move |_: Vec<u8>| -> Told { ready(Err(lost())).boxed() };
        let answer = batches.ask("b", || 0, async { unreachable!("not alone") }, tell).await;
        assert_eq!(answer.expect_err("lost").outcome(), Outcome::Unknown);
    }
}
