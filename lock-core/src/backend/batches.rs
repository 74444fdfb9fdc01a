//! Batches: requests of many callers that go to a server as one.
//!
//! A request and its commit are most of the cost of a lock. So requests of many callers for different locks are sent
//! as one, as in the group commit of a database. Each caller gets its own answer.
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
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, Shared, WeakShared};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use crate::sync::{Mutex, locked};
use crate::{BackendError, Outcome};

/// Most requests in a batch.
const MOST: usize = 32;

/// Most batches in flight. Fewer batches are larger, so each part is cheaper; more batches wait less for each other.
const UNDER_WAY: usize = 2;

/// Longest wait of a batch for its turn, and the interval at which its callers check for the turn.
///
/// C17: a batch is driven only by its callers. If nobody polls them, the batch would keep its turn for ever, so other
/// batches go on without a turn. A wake-up may be lost when the woken caller leaves, or when its runtime ends.
const MOMENT: Duration = Duration::from_millis(50);

/// The server's answer to each part of a batch; `None` for a part that the server left out.
type Answers<A> = Vec<Option<A>>;

type Answering<A> = BoxFuture<'static, Result<Arc<Answers<A>>, BackendError>>;

/// Gathers the requests of one sort that go to one server, `Q`, each of which has an answer `A`.
///
/// A request that comes alone is sent at once, unbatched. While others are in flight, it is batched with requests of
/// the same time: at most 32, and no two for one lock, since both would find a free lock free (S3). At most two
/// batches are in flight, unless one takes longer than 50 ms.
///
/// The callers that wait for the answers drive the batch. Any of them can drive it, and it ends with the last of
/// them. If the server refuses the batch, each request is sent alone, and succeeds or fails by itself.
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
    /// Shared by each request that is in flight or waits to be sent.
    outstanding: Arc<()>,
    under_way: Arc<Semaphore>,
    open: Mutex<Option<OpenBatch<Q, A>>>,
}

/// A batch that others may join while somebody waits for it.
struct OpenBatch<Q, A> {
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
    /// Asks `question` about `lock`: by `together` if there are other requests, else by `alone`.
    ///
    /// `together` answers its questions in their order; `None` leaves a question to `alone`. The batch uses the
    /// `together` of the caller that came first.
    ///
    /// # Errors
    /// Errors of `alone`, and errors of `together` that leave the outcome unknown.
    ///
    /// # Cancel safety
    /// After a drop the request may or may not be carried out. It is left out if its batch was not sent by then. If
    /// it was sent, the server handles it before the withdrawal of its claim, or finds the mark of the withdrawal
    /// (C19).
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
        // Two requests that begin at the same moment may each count the other, and be batched.
        let is_alone = Arc::strong_count(&outstanding) == 2;
        let refusal = match is_alone {
            true => None,
            false => match self.ask_in_company(lock, question(), together).await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => None,
                // One of the parts may be the cause.
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

    /// Returns the future answers of the batch that `part` joined, and the part's number in it.
    fn join<F>(&self, part: Part<Q>, together: F) -> (Shared<Answering<A>>, usize)
    where
        F: FnOnce(Vec<Q>) -> BoxFuture<'static, Result<Answers<A>, BackendError>> + Send + 'static,
    {
        let mut open = locked(&self.open);
        if let Some(OpenBatch { parts, answers }) = &*open
            && let Some(answers) = answers.upgrade()
            // The parts are locked until this one is added, since the batch may be sent at any moment.
            && let mut parts = locked(parts)
            && parts.admits(&part.lock)
        {
            parts.all.push(part);
            return (answers, parts.all.len() - 1);
        }
        let parts = Arc::new(Mutex::new(Parts { all: vec![part], is_sent: false }));
        let answers = answers(parts.clone(), self.under_way.clone(), together).boxed().shared();
        *open = answers.downgrade().map(|answers| OpenBatch { parts, answers });
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

/// Waits for a turn, at most [`MOMENT`]. A timer would belong to the runtime of one caller, so none is used: each
/// caller checks again by itself.
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
    /// C19: sends no question of a caller that has left. The withdrawal of its claim may already have arrived.
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

#[cfg(test)]
mod tests;
