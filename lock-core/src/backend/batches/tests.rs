use std::future::{pending, ready};
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Barrier;

use super::*;

const LIMIT: Duration = Duration::from_secs(1);

type PendingAnswers = BoxFuture<'static, Result<Answers<u8>, BackendError>>;

fn refusal() -> BackendError {
    BackendError::permanent("a test", Outcome::NotApplied, "nothing is carried out", "refused")
}

fn never(_: Vec<u8>) -> PendingAnswers {
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
    let ask =
        async |lock: &str| timeout(LIMIT, batches.ask(lock, || 0, pending(), never)).await.is_err();
    assert!(tokio::join!(ask("a"), ask("b"), ask("c"), ask("b")) == (true, true, true, true));
    assert_eq!(batches.under_way.available_permits(), UNDER_WAY);
    assert_eq!(Arc::strong_count(&batches.outstanding), 1);
}

/// C17: callers that nobody polls do not keep others from the server.
#[tokio::test(start_paused = true)]
async fn c17_those_who_are_not_polled_hold_nobody_up() {
    let batches = Batches::<u8, u8>::default();
    let ask = || batches.ask("a", || 0, pending(), never);
    let (mut alone, mut one, mut other) = (pin!(ask()), pin!(ask()), pin!(ask()));
    // Each request begins, and is sent.
    for _ in 0..2 {
        assert!(alone.as_mut().now_or_never().is_none());
        assert!(one.as_mut().now_or_never().is_none());
        assert!(other.as_mut().now_or_never().is_none());
    }
    assert_eq!(batches.under_way.available_permits(), 0);
    let answer = timeout(LIMIT, batches.ask("a", || 1, pending(), echo)).await;
    assert!(matches!(answer, Ok(Ok(1))), "{answer:?}");
}

/// A batch without a turn, and the two batches that took the turns.
fn without_a_turn(batches: &Batches<u8, u8>) -> impl Sized + use<> {
    let turns = batches.under_way.clone().try_acquire_many_owned(UNDER_WAY as u32);
    (turns.expect("nobody is there"), batches.outstanding.clone())
}

fn echo(asked: Vec<u8>) -> PendingAnswers {
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

/// C17: a caller that was woken for all may leave before it looks.
#[tokio::test(start_paused = true)]
async fn c17_a_lost_wake_up_costs_a_moment() {
    let (is_sent, is_there) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (sent, there) = (is_sent.clone(), is_there.clone());
    let together = move |_| -> PendingAnswers {
        // Wakes no caller.
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

/// C15: the batch may have been carried out, though the repeat certainly was not.
#[tokio::test]
async fn c15_a_refusal_amid_the_work_is_told() {
    let batches = Batches::<u8, u8>::default();
    let _company = batches.outstanding.clone();
    let unread = || BackendError::permanent("a test", Outcome::Unknown, "an answer", "unread");
    let tell = move |_: Vec<u8>| -> PendingAnswers { ready(Err(unread())).boxed() };
    let answer = batches.ask("a", || 0, ready(Err(refusal())), tell).await;
    assert_eq!(answer.expect_err("it failed twice").outcome(), Outcome::Unknown);
}

/// The server refuses one part, and does not say which. The rest of the batch is sent alone as well.
#[tokio::test]
async fn what_is_left_or_refused_goes_alone() {
    for told in [Ok(vec![Some(1), None]), Err(refusal())] {
        let batches = Batches::<u8, u8>::default();
        let tell = || {
            let told = told.clone();
            |_: Vec<u8>| -> PendingAnswers { ready(told).boxed() }
        };
        // The first request is alone in progress until the others have gone alone, or have their answers.
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

/// The fate of the request is unknown, so it is not sent again.
#[tokio::test]
async fn what_is_not_known_is_told() {
    let batches = Batches::<u8, u8>::default();
    let lost = || BackendError::transient("a test", Outcome::Unknown, "an answer", "lost");
    let mut first = pin!(batches.ask("a", || 0, pending(), never));
    assert!(first.as_mut().now_or_never().is_none());
    let tell = move |_: Vec<u8>| -> PendingAnswers { ready(Err(lost())).boxed() };
    let answer = batches.ask("b", || 0, async { unreachable!("not alone") }, tell).await;
    assert_eq!(answer.expect_err("lost").outcome(), Outcome::Unknown);
}
