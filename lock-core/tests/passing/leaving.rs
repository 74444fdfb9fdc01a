//! Tasks that leave a line, and shutdowns, while a hold is on its way.

use std::time::Duration;

use futures_util::FutureExt;
use lock_core::{ClientOptions, LockClient, LockError, LockRequest, MemoryBackend, Wait};
use lock_testkit::{Fault, Operation};
use tokio::time::{Instant, timeout};

use super::{SECOND, Store, Waiting};

/// C19: if any waiter of a local queue leaves, in any way, the hold goes to the next, and at last back to the
/// server.
#[tokio::test(start_paused = true)]
async fn c19_waiters_that_leave_keep_no_hold() {
    for leaves in 0..3 {
        let store = Store::new();
        let first = store.hold().await;
        let mut waiters: Vec<_> =
            (0..3).map(|_| Some(Box::pin(store.locks.acquire("a")))).collect();
        for waiter in waiters.iter_mut().flatten() {
            assert!(waiter.now_or_never().is_none(), "it waits");
        }
        std::thread::sleep(Duration::from_millis(1));
        first.release().await.expect("held to the end");
        // The hold has passed to the head, which has not been polled since.
        waiters[leaves] = None;
        for waiter in waiters.into_iter().flatten() {
            waiter.await.expect("its turn comes").release().await.expect("held to the end");
        }
        let free = LockClient::new(store.memory.clone()).try_acquire("a").await.expect("an answer");
        assert!(free.is_some(), "a hold was left behind");
    }
}

/// C19: the last waiter of a local queue releases a hold that passed to it, if it does not take it.
#[tokio::test(start_paused = true)]
async fn c19_a_hold_that_is_passed_to_one_that_leaves_is_given_back() {
    let store = Store::new();
    let first = store.hold().await;
    let request = LockRequest::new("a").wait(Wait::AtMost(SECOND));
    let mut second = Box::pin(store.locks.acquire(request));
    assert!((&mut second).now_or_never().is_none(), "it waits");
    std::thread::sleep(Duration::from_millis(1));
    first.release().await.expect("held to the end");
    drop(second);
    let other = LockClient::new(store.memory.clone());
    let began = Instant::now();
    let guard = other.acquire("a").await.expect("it is given back");
    assert!(began.elapsed() < SECOND, "only the TTL ended it");
    guard.release().await.expect("held to the end");
}

/// C20: dropping a guard also passes its hold on, once tokens are reserved.
#[tokio::test(start_paused = true)]
async fn c20_a_dropped_guard_passes_its_hold_on() {
    let store = Store::new();
    let first = store.hold().await;
    let (second, third) = (store.locks.acquire("a"), store.locks.acquire("a"));
    let rest = async {
        let (second, third) = tokio::join!(async { drop(second.await.expect("its turn")) }, third);
        let () = second;
        third.expect("its turn comes")
    };
    let third = Box::pin(store.after(first, rest)).await;
    assert_eq!(store.grants_asked(), 1);
    third.release().await.expect("held to the end");
}

/// C20: a shutdown during a pass releases the hold.
#[tokio::test(start_paused = true)]
async fn c20_a_shutdown_gives_back_what_is_on_its_way() {
    let store = Store::new();
    let first = store.hold().await;
    let mut second = Box::pin(store.locks.acquire("a"));
    assert!((&mut second).now_or_never().is_none(), "it waits");
    std::thread::sleep(Duration::from_millis(1));
    first.release().await.expect("held to the end");
    let ((), closed) = tokio::join!(store.locks.shutdown(), second);
    assert!(matches!(closed, Err(LockError::Closed { .. })), "{closed:?}");
    let other = LockClient::new(store.memory.clone());
    assert!(other.try_acquire("a").await.expect("an answer").is_some(), "it was left behind");
}

/// C19: a guard whose release is uncertain ends the turn, and leaves nothing.
#[tokio::test(start_paused = true)]
async fn c19_a_reservation_in_doubt_ends_the_turn() {
    for fault in [Fault::ReplyLost, Fault::RequestLost, Fault::SilenceAfter, Fault::Refused] {
        let store = Store::new();
        let first = store.hold().await;
        store.faulty.once(Operation::Release, fault);
        let second = async { store.locks.acquire("a").await.expect("its turn comes") };
        let second = store.after(first, second).await;
        // An uncertain request may arrive late, and would end the hold of the next task: so the turn ends.
        assert!(second.is_held() && store.grants_asked() > 1, "{fault:?}");
        second.release().await.expect("held to the end");
        let other = LockClient::new(store.memory.clone());
        let free = other.try_acquire("a").await.expect("an answer");
        assert!(free.is_some(), "{fault:?}: a hold was left behind");
    }
}

/// L1: a waiter that was polled once and is kept may be the head of its client's line.
#[tokio::test(start_paused = true)]
async fn l1_a_waiter_that_nobody_polls_keeps_no_other_of_its_client_out() {
    let options = ClientOptions::new().ttl(SECOND * 60);
    let locks = LockClient::with_options(MemoryBackend::new(), options);
    let guard = locks.acquire("a").await.expect("a free lock");
    // Tokens are reserved for later holds once a hold has lasted for a while.
    std::thread::sleep(Duration::from_millis(1));
    let mut unpolled: Waiting<'_> = Box::pin(locks.acquire("a"));
    assert!((&mut unpolled).now_or_never().is_none(), "it waits");
    guard.release().await.expect("held to the end");
    let next = timeout(SECOND * 30, locks.acquire("a")).await.expect("its turn comes");
    next.expect("granted").release().await.expect("held to the end");
    unpolled.await.expect("it is polled again").release().await.expect("held to the end");
}

/// C20: a shutdown also gives back a hold that was passed to a waiter that nobody polls.
#[tokio::test(start_paused = true)]
async fn c20_a_shutdown_gives_back_a_hold_that_was_passed_and_not_taken() {
    let store = MemoryBackend::new();
    let locks = LockClient::with_options(store.clone(), ClientOptions::new().ttl(SECOND * 60));
    let guard = locks.acquire("a").await.expect("a free lock");
    std::thread::sleep(Duration::from_millis(1));
    let mut unpolled: Waiting<'_> = Box::pin(locks.acquire("a"));
    assert!((&mut unpolled).now_or_never().is_none(), "it waits");
    guard.release().await.expect("held to the end");
    locks.shutdown().await;
    let free = LockClient::new(store).try_acquire("a").await.expect("an answer");
    assert!(free.is_some(), "the lock is still held");
}

/// C20: a shutdown also gives back a hold whose tokens are on their way to a waiter that nobody polls.
#[tokio::test(start_paused = true)]
async fn c20_a_shutdown_gives_back_a_hold_that_is_passed_later() {
    let store = Store::new();
    let first = store.hold().await;
    let mut unpolled: Waiting<'_> = Box::pin(store.locks.acquire("a"));
    assert!((&mut unpolled).now_or_never().is_none(), "it waits");
    std::thread::sleep(Duration::from_millis(1));
    store.faulty.once(Operation::Release, Fault::Late(SECOND / 200));
    let (released, ()) = tokio::join!(first.release(), store.locks.shutdown());
    released.expect("held to the end");
    store.assert_free().await;
}

/// C20: a shutdown also withdraws a request that a head passes to a waiter that nobody polls.
#[tokio::test(start_paused = true)]
async fn c20_a_shutdown_withdraws_a_request_that_is_passed_later() {
    let store = Store::new();
    store.faulty.once(Operation::Acquire, Fault::Late(SECOND / 2));
    let mut head: Waiting<'_> = Box::pin(store.locks.acquire("a"));
    let mut unpolled: Waiting<'_> = Box::pin(store.locks.acquire("a"));
    assert!((&mut head).now_or_never().is_none(), "it asks");
    assert!((&mut unpolled).now_or_never().is_none(), "it waits");
    let (closed, ()) = tokio::join!(head, store.locks.shutdown());
    assert!(matches!(closed, Err(LockError::Closed { .. })), "{closed:?}");
    store.assert_free().await;
}
