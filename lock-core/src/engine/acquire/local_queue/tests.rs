use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{advance, sleep};

use super::*;
use crate::backend::WAITER_LIVENESS;
use crate::engine::hold::tests::hold_for;

fn name() -> LockName {
    LockName::new("a").expect("a name")
}

fn lines(queue: &LocalQueue<u32>) -> usize {
    locked(&queue.lines).len()
}

fn hold() -> Arc<Hold> {
    Arc::new(hold_for(Duration::from_secs(30)))
}

const PATIENCE: Duration = Duration::from_secs(1);

/// Waits for the turn of an exclusive claim; `None` if the head is not polled.
async fn lead<H>(queue: &LocalQueue<H>, name: &LockName) -> Option<Turn<H>> {
    match queue.join(name, 1, PATIENCE).next_move().await {
        Move::Lead(turn) => Some(turn),
        Move::Leave => None,
        Move::AskBeside(_) => panic!("an exclusive claim asks alone"),
    }
}

async fn holder(queue: &LocalQueue<u32>) -> LineHolder<u32> {
    let until = Instant::now() + Duration::from_millis(20);
    lead(queue, &name()).await.expect("a turn").holds(&hold(), |_| until)
}

#[tokio::test]
async fn c26_waiters_move_up_in_order_and_leave_nothing() {
    let queue = LocalQueue::<u32>::default();
    let first = lead(&queue, &name()).await.expect("a turn");
    let (name, other) = (name(), name());
    let mut second = Box::pin(lead(&queue, &name));
    let mut third = Box::pin(lead(&queue, &other));
    assert!((&mut second).now_or_never().is_none());
    assert!((&mut third).now_or_never().is_none());
    drop(first);
    assert!((&mut third).now_or_never().is_none(), "the third overtook the second");
    let second = second.await;
    drop(second);
    drop(third.await);
    assert_eq!(lines(&queue), 0);
}

#[tokio::test]
async fn c19_a_cancelled_waiter_leaves_the_line() {
    let queue = LocalQueue::<u32>::default();
    let first = lead(&queue, &name()).await.expect("a turn");
    assert!(lead(&queue, &name()).now_or_never().is_none());
    drop(first);
    drop(lead(&queue, &name()).now_or_never().expect("the line is free"));
    assert_eq!(lines(&queue), 0);
}

#[tokio::test(start_paused = true)]
async fn c26_a_head_waits_for_a_holder_of_its_line_and_no_longer_than_its_turn() {
    let queue = LocalQueue::<u32>::default();
    let holder = holder(&queue).await;
    let (turn, began) = (lead(&queue, &name()).await.expect("a turn"), Instant::now());
    assert_eq!(turn.passed().await, None);
    assert_eq!(began.elapsed(), Duration::from_millis(20));
    assert_eq!(holder.waiters(), 0, "the head asks the server");
    assert_eq!(holder.pass(7), Err(7));
}

#[tokio::test(start_paused = true)]
async fn c26_a_head_goes_to_the_server_when_the_holder_ends_otherwise() {
    let queue = LocalQueue::<u32>::default();
    let (holder, turn) = (holder(&queue).await, lead(&queue, &name()).await.expect("a turn"));
    let mut passed = Box::pin(turn.passed());
    assert!((&mut passed).now_or_never().is_none());
    let began = Instant::now();
    drop(holder);
    assert_eq!(passed.await, None);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn c19_a_hold_that_a_cancelled_head_was_passed_is_the_next_ones() {
    let queue = LocalQueue::<u32>::default();
    let (holder, turn) = (holder(&queue).await, lead(&queue, &name()).await.expect("a turn"));
    let name = name();
    let mut next = Box::pin(lead(&queue, &name));
    assert!((&mut next).now_or_never().is_none());
    assert_eq!(holder.waiters(), 2);
    assert_eq!(holder.pass(7), Ok(()));
    drop(turn);
    assert_eq!(next.await.expect("a turn").passed().now_or_never(), Some(Some(7)));
    assert_eq!(lines(&queue), 0);
}

#[tokio::test(start_paused = true)]
async fn c19_a_hold_that_a_cancelled_head_was_passed_is_dropped_by_one_that_asks_the_server() {
    let queue = LocalQueue::<Arc<()>>::default();
    let (passed, until) = (Arc::new(()), Instant::now() + Duration::from_secs(1));
    let holder = lead(&queue, &name()).await.expect("a turn").holds(&hold(), |_| until);
    let (turn, name) = (lead(&queue, &name()).await.expect("a turn"), name());
    let mut next = Box::pin(lead(&queue, &name));
    assert!((&mut next).now_or_never().is_none());
    assert!(holder.pass(passed.clone()).is_ok());
    drop(turn);
    let head = next.await.expect("a turn");
    drop(head.ask_server());
    assert_eq!(Arc::strong_count(&passed), 1, "the head would wait for it until its TTL ends");
}

#[tokio::test(start_paused = true)]
async fn c19_a_hold_that_nobody_is_left_to_take_is_dropped() {
    let queue = LocalQueue::<Arc<()>>::default();
    let passed = Arc::new(());
    let until = Instant::now() + Duration::from_secs(1);
    // The queue outlives its waiters.
    let _lost_long_ago = lead(&queue, &name()).await.expect("a turn").holds(&hold(), |_| until);
    let holder = lead(&queue, &name()).await.expect("a turn").holds(&hold(), |_| until);
    let turn = lead(&queue, &name()).await.expect("a turn");
    assert!(holder.pass(passed.clone()).is_ok());
    drop(turn);
    assert_eq!(Arc::strong_count(&passed), 1, "it is kept");
}

#[tokio::test(start_paused = true)]
async fn l1_a_head_that_nobody_polls_keeps_no_other_in_line() {
    let (queue, name) = (LocalQueue::<u32>::default(), name());
    let first = lead(&queue, &name).await.expect("a turn");
    let mut unpolled = Box::pin(lead(&queue, &name));
    assert!((&mut unpolled).now_or_never().is_none());
    let mut next = Box::pin(lead(&queue, &name));
    assert!((&mut next).now_or_never().is_none());
    drop(first);
    let began = Instant::now();
    assert!(next.await.is_none());
    assert_eq!(began.elapsed(), 2 * WAITER_LIVENESS);
    let later = lead(&queue, &name).now_or_never();
    assert!(later.is_some_and(|turn| turn.is_none()), "it waits for the same head again");
    assert!(unpolled.await.is_some());
    assert_eq!(lines(&queue), 0);
}

/// A task that polls many waiters for the first time takes long, and polls the head again after them. After a pause of
/// the process, a waiter may be polled before the head.
#[tokio::test(start_paused = true)]
async fn c26_a_crowd_behind_a_head_that_is_polled_late_stays_in_line() {
    let (queue, name) = (LocalQueue::<u32>::default(), name());
    let head = lead(&queue, &name).await.expect("a turn");
    let mut first = Box::pin(lead(&queue, &name));
    assert!((&mut first).now_or_never().is_none());
    advance(WAITER_LIVENESS * 4).await;
    let mut new = Box::pin(lead(&queue, &name));
    assert!((&mut first).now_or_never().is_none(), "two ask the server");
    assert!((&mut new).now_or_never().is_none(), "two ask the server");
    head.answers().asked(Instant::now());
    advance(WAITER_LIVENESS).await;
    assert!((&mut new).now_or_never().is_none(), "two ask the server");
    drop(head);
    drop(first.await.expect("its turn comes"));
    drop(new.await.expect("its turn comes"));
}

/// L1: a hold that was passed to a head that nobody polls would keep the lock from all.
#[tokio::test(start_paused = true)]
async fn l1_a_waiter_that_leaves_gives_back_what_nobody_takes() {
    let (queue, name) = (LocalQueue::<Arc<()>>::default(), name());
    let (passed, until) = (Arc::new(()), Instant::now() + Duration::from_secs(1));
    let holder = lead(&queue, &name).await.expect("a turn").holds(&hold(), |_| until);
    let unpolled = lead(&queue, &name).await.expect("a turn");
    assert!(unpolled.passed().now_or_never().is_none());
    let next = lead(&queue, &name);
    assert!(holder.pass(passed.clone()).is_ok());
    assert!(next.await.is_none());
    assert_eq!(Arc::strong_count(&passed), 1, "it is kept");
}

/// L1: a head that is polled has gone on to the server by then.
#[tokio::test(start_paused = true)]
async fn l1_nothing_is_passed_to_a_head_that_waits_no_more() {
    let queue = LocalQueue::<u32>::default();
    let holder = holder(&queue).await;
    let head = lead(&queue, &name()).await.expect("a turn");
    assert!(head.passed().now_or_never().is_none());
    advance(Duration::from_millis(20)).await;
    assert_eq!(holder.waiters(), 0);
    assert_eq!(holder.pass(7), Err(7));
}

#[tokio::test(start_paused = true)]
async fn c26_a_head_that_asks_keeps_its_turn_also_while_the_server_is_silent() {
    let (queue, name) = (LocalQueue::<u32>::default(), name());
    let head = lead(&queue, &name).await.expect("a turn");
    let mut next = Box::pin(lead(&queue, &name));
    for pause in [1, 1, 1, 1, 10, 10] {
        head.answers().asked(Instant::now());
        tokio::select! {
            _ = &mut next => panic!("two ask the server"),
            () = sleep(Duration::from_secs(pause)) => {}
        }
    }
    drop(head);
    assert!(next.await.is_some());
}
