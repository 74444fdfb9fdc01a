//! C39: several locks at once, all or none.

use std::time::Duration;

use tokio::time::timeout;

use super::harness::Harness;
use super::steps::{client, eventually, faulty_client, fresh_name, patient, until_free};
use crate::Operation;
use lock_core::{LockClient, LockError, LockName, MultiGuard, MultiRequest, Wait};

/// Two names that no other test uses, in the order of their bytes.
fn two_names() -> [LockName; 2] {
    let mut names = [fresh_name(), fresh_name()];
    names.sort();
    names
}

/// Asks for `names` in the opposite order, and for one of them twice.
fn reversed(names: &[LockName; 2], ttl: Duration) -> MultiRequest {
    let [first, second] = names;
    MultiRequest::new([second, first, second]).ttl(ttl)
}

async fn until_all_free(harness: &dyn Harness, observer: &LockClient, names: &[LockName; 2]) {
    for name in names {
        until_free(harness, observer, name).await;
    }
}

/// C39: several locks are held under one guard, each with its token, and are given back together.
pub async fn c39_several_locks_are_held_together(harness: &dyn Harness) {
    let (locks, other, names) = (client(harness).await, client(harness).await, two_names());
    let request = || reversed(&names, harness.limit());
    let all = locks.acquire_all(request()).await.expect("free locks");
    let tokens: Vec<_> = all.tokens().collect();
    for (name, token) in &tokens {
        let holder = other.inspect(name).await.expect("an answer").holder().cloned();
        let known = holder.and_then(|holder| holder.token);
        assert_eq!(known, Some(*token), "each lock is to be held under the token that is told");
    }
    let held: Vec<_> = tokens.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(held, names, "each lock is to be acquired once");
    assert_eq!(all.run(async { 42 }).await.expect("held"), 42);
    all.release().await.expect("held to the end");
    let next = other.acquire_all(request()).await.expect("all are to be free after a release");
    drop(next);
    until_all_free(harness, &other, &names).await;
}

/// C39: if one lock is busy, none is acquired.
pub async fn c39_it_is_all_or_none(harness: &dyn Harness) {
    let (locks, holder, names) = (client(harness).await, client(harness).await, two_names());
    for (at, busy) in names.iter().enumerate() {
        let guard = holder.acquire(patient(busy, harness.limit())).await.expect("a free lock");
        for wait in [Wait::Never, Wait::AtMost(harness.slack())] {
            let request = reversed(&names, harness.limit()).wait(wait);
            let bound = harness.request_timeout() * 2 + harness.slack() * 2;
            let refused = timeout(bound, locks.acquire_all(request)).await.expect("in time");
            let is_busy = refused.as_ref().is_err_and(LockError::is_busy);
            assert!(is_busy, "the answer is to be busy: {refused:?}");
            if let Err(LockError::NotAcquired { name, .. }) = refused {
                assert_eq!(name, *busy, "the error is to name the lock that is busy");
            }
            until_free(harness, &holder, &names[1 - at]).await;
        }
        guard.release().await.expect("held to the end");
    }
}

/// C39: locks are acquired in the order of their bytes, whatever order they were given in.
pub async fn c39_names_are_taken_in_the_order_of_their_bytes(harness: &dyn Harness) {
    let (holder, names) = (client(harness).await, two_names());
    let (locks, faulty) = faulty_client(harness).await;
    let guard = holder.acquire(patient(&names[0], harness.limit())).await.expect("a free lock");
    let waiting = tokio::spawn({
        let request = reversed(&names, harness.limit());
        async move { locks.acquire_all(request).await }
    });
    // The second request has been answered by the time of the third.
    eventually(harness, "it waits", async || faulty.calls(Operation::TryAcquire) > 2).await;
    let second = holder.inspect(&names[1]).await.expect("an answer").holder().cloned();
    assert_eq!(second, None, "a lock is to be acquired after those whose names come before");
    guard.release().await.expect("held to the end");
    let all = waiting.await.expect("no panic").expect("its turn comes");
    all.release().await.expect("held to the end");
    until_all_free(harness, &holder, &names).await;
}

/// C39: clients that acquire the same locks in opposite orders never wait for each other in a circle.
pub async fn c39_opposite_orders_never_deadlock(harness: &dyn Harness) {
    let (one, two, names) = (client(harness).await, client(harness).await, two_names());
    let [first, second] = &names;
    let rounds = async |locks: &LockClient, order: [&LockName; 2]| {
        for _ in 0..10 {
            let request = MultiRequest::new(order).ttl(harness.limit());
            let all = locks.acquire_all(request).await.expect("its turn comes");
            all.release().await.expect("held to the end");
        }
    };
    tokio::join!(
        rounds(&one, [first, second]),
        rounds(&two, [second, first]),
        rounds(&one, [second, first]),
    );
    until_all_free(harness, &one, &names).await;
}

/// C19, C39: an acquisition that is dropped while it waits for one lock leaves none.
pub async fn c39_a_dropped_acquisition_of_several_leaves_nothing(harness: &dyn Harness) {
    let (locks, holder, names) = (client(harness).await, client(harness).await, two_names());
    let guard = holder.acquire(patient(&names[1], harness.limit())).await.expect("a free lock");
    let waiting = locks.acquire_all(reversed(&names, harness.limit()));
    let first_is_held = eventually(harness, "the first is held", async || {
        holder.inspect(&names[0]).await.expect("an answer").holder().is_some()
    });
    tokio::select! {
        acquired = waiting => panic!("one lock is held by another: {acquired:?}"),
        () = first_is_held => {}
    }
    until_free(harness, &holder, &names[0]).await;
    guard.release().await.expect("held to the end");
    until_all_free(harness, &holder, &names).await;
}

/// C39: the loss of one lock is that of all, and names it.
pub async fn c39_the_loss_of_one_is_the_loss_of_all(harness: &dyn Harness) {
    let (locks, observer, names) = (client(harness).await, client(harness).await, two_names());
    let all = locks.acquire_all(reversed(&names, harness.ttl())).await.expect("free locks");
    assert!(all.is_held());
    harness.evict(&names[1]).await;
    let (lost, _) = timeout(harness.limit(), all.lost()).await.expect("the loss is to be told");
    assert_eq!(lost, names[1], "the lock that was lost is to be named");
    assert!(!all.is_held(), "it is held only while all are");
    told_as_lost(all.run(async {}).await, &names[1]);
    ends_as_lost(all, &names[1]).await;
    until_all_free(harness, &observer, &names).await;
}

async fn ends_as_lost(all: MultiGuard, expected: &LockName) {
    told_as_lost(all.release().await, expected);
}

fn told_as_lost(answer: Result<(), LockError>, expected: &LockName) {
    let Err(LockError::Lost { name, .. }) = &answer else {
        panic!("the answer is to tell of the loss: {answer:?}");
    };
    assert_eq!(name, expected, "the lock that was lost is to be named");
}
