//! Requests of many callers that go to the server as one.
//!
//! Most of what a lock costs is its request, the call of a function, and the commit. So what many callers ask of
//! different locks at the same time is one call, and one commit. The server carries out the common case: a lock that is
//! free, or a hold for which nobody waits. The rest is left as it is, and goes alone.
//!
//! ```text
//!   acquire a ──┐                                      ┌──▶ a: its token
//!   acquire b ──┼──▶ one call for a, b, c ──▶ server ──┼──▶ b: left ──▶ acquire b
//!   acquire c ──┘                                      └──▶ c: its token
//! ```
//!
//! One that is alone goes at once, without company. Those who wait for the answers drive the call, whichever of them is
//! there: it ends with the last of them. If the server refuses the whole, each goes alone, and succeeds or fails by
//! itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, Shared, WeakShared};
use lock_core::{BackendError, LockName, Outcome};
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::timeout;

/// How many requests are one call.
const MOST: usize = 32;

/// How many calls of one sort are under way. With fewer each is larger, and costs less for each part; with more they
/// wait less for each other.
const UNDER_WAY: usize = 2;

/// How long a call waits for its turn.
///
/// C17: only its callers drive a call. If nobody polls them, it keeps its turn for ever. So others go on without a turn,
/// and the number of connections bounds them.
const TURN_WITHIN: Duration = Duration::from_millis(50);

/// What the server answers to each part of a call; `None` to one that it left.
pub(super) type Answers<A> = Vec<Option<A>>;

type Sending<A> = BoxFuture<'static, Result<Answers<A>, BackendError>>;
type Asking<Q, A> = dyn Fn(Vec<Q>) -> Sending<A> + Send + Sync;
type Answering<A> = BoxFuture<'static, Result<Arc<Answers<A>>, BackendError>>;

/// The requests of one sort that may go together.
pub(super) struct Together<Q, A> {
    send: Arc<Asking<Q, A>>,
    /// Each request that is under way, or waits to be, has a share of it.
    outstanding: Arc<()>,
    under_way: Arc<Semaphore>,
    open: Mutex<Option<Open<Q, A>>>,
}

/// A call that others may join, for as long as somebody waits for it.
struct Open<Q, A> {
    parts: Arc<Mutex<Parts<Q>>>,
    answers: WeakShared<Answering<A>>,
}

/// What a call asks. No two parts are about one lock.
struct Parts<Q> {
    all: Vec<(LockName, Q, Weak<()>)>,
    is_sent: bool,
}

impl<Q, A> Together<Q, A>
where
    Q: Send + 'static,
    A: Clone + Send + Sync + 'static,
{
    /// `send` asks the server.
    pub(super) fn new(send: impl Fn(Vec<Q>) -> Sending<A> + Send + Sync + 'static) -> Self {
        let (outstanding, open) = Default::default();
        let under_way = Arc::new(Semaphore::new(UNDER_WAY));
        Self { send: Arc::new(send), outstanding, under_way, open }
    }

    /// Asks about a lock: with others if there are any, and by `alone` if there are none, or if it is left.
    ///
    /// # Cancel safety
    /// After a drop the request may be carried out, or not. It is dropped if its call has not gone to a connection by
    /// then. After that the mark of the withdrawal refuses it (C19).
    pub(super) async fn ask(
        &self,
        lock: &LockName,
        question: impl FnOnce() -> Q,
        alone: impl Future<Output = Result<A, BackendError>>,
    ) -> Result<A, BackendError> {
        let outstanding = self.outstanding.clone();
        // Two that begin at the same moment may take each other for company.
        let is_alone = Arc::strong_count(&outstanding) == 2;
        if !is_alone && let Some(answer) = self.ask_in_company(lock, question()).await? {
            return Ok(answer);
        }
        alone.await
    }

    async fn ask_in_company(
        &self,
        lock: &LockName,
        question: Q,
    ) -> Result<Option<A>, BackendError> {
        let caller = Arc::new(());
        let (answers, place) = self.join(lock, question, &caller);
        match answers.await {
            Ok(answers) => Ok(answers.get(place).cloned().flatten()),
            // One of the parts may be why.
            Err(error) if is_refusal(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where the answers come to the call of which this is a part, and which part it is.
    fn join(
        &self,
        lock: &LockName,
        question: Q,
        caller: &Arc<()>,
    ) -> (Shared<Answering<A>>, usize) {
        let part = (lock.clone(), question, Arc::downgrade(caller));
        let mut open = locked(&self.open);
        if let Some(Open { parts, answers }) = &*open
            && let Some(answers) = answers.upgrade()
            // Held until the part is in: the others may be sent at any moment.
            && let mut parts = locked(parts)
            && parts.admits(lock)
        {
            parts.all.push(part);
            return (answers, parts.all.len() - 1);
        }
        let parts = Arc::new(Mutex::new(Parts { all: vec![part], is_sent: false }));
        let answers = answers(parts.clone(), self.under_way.clone(), self.send.clone());
        let answers = answers.boxed().shared();
        *open = answers.downgrade().map(|answers| Open { parts, answers });
        (answers, 0)
    }
}

/// Sends a call when its turn has come.
async fn answers<Q, A: Clone>(
    parts: Arc<Mutex<Parts<Q>>>,
    under_way: Arc<Semaphore>,
    send: Arc<Asking<Q, A>>,
) -> Result<Arc<Answers<A>>, BackendError> {
    let _turn = timeout(TURN_WITHIN, under_way.acquire()).await;
    // Those that are about to ask come along.
    yield_now().await;
    let (mut answers, places, questions) = locked(&parts).send();
    for (place, answer) in places.into_iter().zip(send(questions).await?) {
        if let Some(kept) = answers.get_mut(place) {
            *kept = answer;
        }
    }
    Ok(Arc::new(answers))
}

/// Whether the server carried out nothing, and says so.
fn is_refusal(error: &BackendError) -> bool {
    error.outcome() == Outcome::NotApplied || !error.is_transient()
}

impl<Q> Parts<Q> {
    fn admits(&self, lock: &LockName) -> bool {
        let is_in = self.all.iter().any(|(joined, ..)| joined == lock);
        !self.is_sent && self.all.len() < MOST && !is_in
    }

    /// What is asked, and which parts that is.
    ///
    /// C19: nothing is asked for a caller that has left. The withdrawal of its claim may have gone by.
    fn send<A: Clone>(&mut self) -> (Answers<A>, Vec<usize>, Vec<Q>) {
        self.is_sent = true;
        let parts = std::mem::take(&mut self.all);
        let none = vec![None; parts.len()];
        let wanted = parts.into_iter().enumerate();
        let wanted = wanted.filter(|(_, (.., caller))| caller.strong_count() > 0);
        let (places, questions) = wanted.map(|(place, (_, question, _))| (place, question)).unzip();
        (none, places, questions)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::sync::Barrier;

    use super::*;
    use crate::error::unreadable;

    fn name(name: &str) -> LockName {
        LockName::new(name).expect("a good name")
    }

    fn parts(all: Vec<(LockName, u8, Weak<()>)>) -> Parts<u8> {
        Parts { all, is_sent: false }
    }

    #[test]
    fn c19_nothing_is_asked_for_a_caller_that_has_left() {
        let (stays, leaves) = (Arc::new(()), Arc::new(()));
        let all = [("a", 1, &leaves), ("b", 2, &stays)];
        let all =
            all.map(|(lock, question, caller)| (name(lock), question, Arc::downgrade(caller)));
        let mut parts = parts(all.into());
        drop(leaves);
        let (answers, places, questions) = parts.send::<u8>();
        assert_eq!((answers.len(), places, questions), (2, vec![1], vec![2]));
        assert!(!parts.admits(&name("c")), "it is sent");
    }

    #[test]
    fn s03_no_two_parts_of_a_call_are_about_one_lock() {
        let parts = parts(vec![(name("a"), 1, Weak::new())]);
        assert!(!parts.admits(&name("a")));
        assert!(parts.admits(&name("b")));
    }

    /// C17: callers that left do not keep others from the server.
    #[tokio::test(start_paused = true)]
    async fn c17_those_who_leave_give_their_turn_back() {
        let together = Together::<u8, u8>::new(|_| std::future::pending().boxed());
        let ask = async |lock: &str| {
            let alone = std::future::pending();
            let lock = name(lock);
            let asked = together.ask(&lock, || 0, alone);
            timeout(Duration::from_secs(1), asked).await.is_err()
        };
        assert!(tokio::join!(ask("a"), ask("b"), ask("c"), ask("b")) == (true, true, true, true));
        assert_eq!(together.under_way.available_permits(), UNDER_WAY);
        assert_eq!(Arc::strong_count(&together.outstanding), 1);
    }

    /// C17: callers whom nobody polls do not keep others from the server.
    #[tokio::test(start_paused = true)]
    async fn c17_those_who_are_not_polled_hold_nobody_up() {
        let send = |asked: Vec<u8>| match asked[..] {
            [0] => std::future::pending().boxed(),
            _ => std::future::ready(Ok(asked.into_iter().map(Some).collect())).boxed(),
        };
        let (together, name) = (Together::<u8, u8>::new(send), name("a"));
        let ask = |question| together.ask(&name, move || question, std::future::pending());
        let (mut alone, mut one, mut other) = (pin!(ask(0)), pin!(ask(0)), pin!(ask(0)));
        // Each begins, and is sent.
        for _ in 0..2 {
            assert!(alone.as_mut().now_or_never().is_none());
            assert!(one.as_mut().now_or_never().is_none());
            assert!(other.as_mut().now_or_never().is_none());
        }
        assert_eq!(together.under_way.available_permits(), 0);
        let answer = timeout(Duration::from_secs(1), ask(1)).await;
        assert!(matches!(answer, Ok(Ok(1))), "{answer:?}");
    }

    /// Which of them the server refuses is not told. What it leaves goes alone as well.
    #[tokio::test]
    async fn what_is_left_or_refused_goes_alone() {
        for answer in [Ok(vec![Some(1), None]), Err(unreadable("nothing"))] {
            let told = answer.clone();
            let together =
                Together::<u8, u8>::new(move |_| std::future::ready(told.clone()).boxed());
            // The first is under way alone until the others have gone alone, or have their answer.
            let all_asked = Barrier::new(2);
            let first = async {
                all_asked.wait().await;
                Ok(9)
            };
            let others = async {
                let alone = || std::future::ready(Ok(2));
                let (b, c) = (name("b"), name("c"));
                let told =
                    tokio::join!(together.ask(&b, || 0, alone()), together.ask(&c, || 0, alone()));
                all_asked.wait().await;
                (told.0.ok(), told.1.ok())
            };
            let lock = name("a");
            let (first, others) = tokio::join!(together.ask(&lock, || 0, first), others);
            assert_eq!(first.ok(), Some(9));
            assert_eq!(others, (Some(if answer.is_ok() { 1 } else { 2 }), Some(2)));
        }
    }
}
