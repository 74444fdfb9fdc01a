//! C39: several locks at once, all or none.

use std::time::Duration;

use futures_util::future::{FutureExt, join_all};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::harness::Harness;
use super::steps::{answered, client, eventually, faulty_client, fresh_name, patient, until_free};
use crate::{Fault, Faulty, Operation};
use lock_core::{FencingToken, LockClient, LockError, LockName, MultiGuard, MultiRequest, Wait};

/// Returns names that no other test uses, in the order of their bytes.
fn names<const N: usize>() -> [LockName; N] {
    let mut names = [(); N].map(|()| fresh_name());
    names.sort();
    names
}

fn two_names() -> [LockName; 2] {
    names()
}

/// Asks for `names` in the opposite order, and for one of them twice.
fn reversed(names: &[LockName; 2], ttl: Duration) -> MultiRequest {
    let [first, second] = names;
    MultiRequest::new([second, first, second]).ttl(ttl)
}

async fn until_all_free(harness: &dyn Harness, observer: &LockClient, names: &[LockName]) {
    for name in names {
        until_free(harness, observer, name).await;
    }
}

/// Returns the token of a lock's holder; `None` if nobody holds it.
async fn token_of(observer: &LockClient, name: &LockName) -> Option<FencingToken> {
    let holder = observer.admin().inspect(name).await.expect("an answer").holder().cloned();
    holder.map(|holder| holder.token.expect("a holder of ours"))
}

async fn held_as_told(observer: &LockClient, all: &MultiGuard) {
    for (name, token) in all.tokens() {
        let known = token_of(observer, name).await;
        assert_eq!(known, Some(token), "each lock is to be held under the token that is told");
    }
}

/// Waits until the client of `faulty` has received the answer "busy".
async fn until_it_waits(
    harness: &dyn Harness,
    observer: &LockClient,
    name: &LockName,
    faulty: &Faulty,
) {
    eventually(harness, "it waits", async || {
        let state = answered(harness, async || observer.admin().inspect(name).await).await;
        // The first request for the lock alone has been answered when the second is sent.
        state.waiters.map_or_else(|| faulty.calls(Operation::Acquire) > 1, |waiters| waiters > 0)
    })
    .await;
}

/// C39: several locks are held under one guard, each with its token, and are released together.
pub async fn c39_several_locks_are_held_together(harness: &dyn Harness) {
    let (locks, other, names) = (client(harness).await, client(harness).await, two_names());
    let request = || reversed(&names, harness.long_ttl());
    let all = locks.acquire_all(request()).await.expect("free locks");
    held_as_told(&other, &all).await;
    let held: Vec<_> = all.tokens().map(|(name, _)| name.clone()).collect();
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
        let guard = holder.acquire(patient(busy, harness.long_ttl())).await.expect("a free lock");
        for wait in [Wait::Never, Wait::AtMost(harness.request_timeout())] {
            let request = reversed(&names, harness.long_ttl()).wait(wait);
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
        // The waiting client may still be in the queue, and is then granted the lock for a moment.
        until_free(harness, &holder, busy).await;
    }
}

/// C39: locks are acquired in the order of their bytes, for any order of the request.
pub async fn c39_names_are_taken_in_the_order_of_their_bytes(harness: &dyn Harness) {
    let (holder, names) = (client(harness).await, two_names());
    let (locks, faulty) = faulty_client(harness).await;
    let guard = holder.acquire(patient(&names[0], harness.long_ttl())).await.expect("a free lock");
    let waiting = tokio::spawn({
        let request = reversed(&names, harness.long_ttl());
        async move { locks.acquire_all(request).await }
    });
    until_it_waits(harness, &holder, &names[0], &faulty).await;
    let second = holder.admin().inspect(&names[1]).await.expect("an answer").holder().cloned();
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
            let request = MultiRequest::new(order).ttl(harness.long_ttl());
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
    let guard = holder.acquire(patient(&names[1], harness.long_ttl())).await.expect("a free lock");
    let waiting = locks.acquire_all(reversed(&names, harness.long_ttl()));
    let first_is_held = eventually(harness, "the first is held", async || {
        holder.admin().inspect(&names[0]).await.is_ok_and(|state| state.holder().is_some())
    });
    tokio::select! {
        acquired = waiting => panic!("one lock is held by another: {acquired:?}"),
        () = first_is_held => {}
    }
    until_free(harness, &holder, &names[0]).await;
    guard.release().await.expect("held to the end");
    until_all_free(harness, &holder, &names).await;
}

/// C39: the loss of one lock is the loss of all, and is reported with its name.
pub async fn c39_the_loss_of_one_is_the_loss_of_all(harness: &dyn Harness) {
    let (locks, observer, names) = (client(harness).await, client(harness).await, two_names());
    let all = locks.acquire_all(reversed(&names, harness.ttl() * 3)).await.expect("free locks");
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

/// C39: of requests for locks that overlap, start at once and do not wait, one is granted, and the others are refused.
pub async fn c39_tries_for_several_are_never_all_refused(harness: &dyn Harness) {
    let clients = [client(harness).await, client(harness).await, client(harness).await];
    let names = names::<3>();
    let rounds = std::env::var("LEASEHOLD_TRIES").ok().and_then(|rounds| rounds.parse().ok());
    for _ in 0..rounds.unwrap_or(20) {
        let [a, b, c] = &names;
        let asked = [vec![a, b, c], vec![b, c], vec![a, c]];
        let tries = clients.iter().zip(asked).map(|(locks, names)| {
            let request = MultiRequest::new(names).ttl(harness.long_ttl()).wait(Wait::Never);
            locks.acquire_all(request)
        });
        let tries = join_all(tries).await;
        let granted = tries.iter().filter(|tried| tried.is_ok()).count();
        assert_eq!(granted, 1, "one of those that start at once is to be granted: {tries:?}");
        for guard in tries.into_iter().flatten() {
            guard.release().await.expect("held to the end");
        }
        until_all_free(harness, &clients[0], &names).await;
    }
}

/// C39: the acquisition waits for a busy lock, and acquires the locks behind it afterwards.
pub async fn c39_the_rest_is_taken_once_a_busy_lock_is_free(harness: &dyn Harness) {
    let (holder, names) = (client(harness).await, names::<4>());
    let (locks, faulty) = faulty_client(harness).await;
    let guard = holder.acquire(patient(&names[1], harness.long_ttl())).await.expect("a free lock");
    let request = MultiRequest::new(names.iter().rev()).ttl(harness.long_ttl());
    let waiting = tokio::spawn(async move { locks.acquire_all(request).await });
    until_it_waits(harness, &holder, &names[1], &faulty).await;
    assert!(token_of(&holder, &names[0]).await.is_some(), "the first lock is free");
    // The names after it were asked for together with the busy one.
    until_all_free(harness, &holder, &names[2..]).await;
    guard.release().await.expect("held to the end");
    let all = waiting.await.expect("no panic").expect("its turn comes");
    held_as_told(&holder, &all).await;
    assert_eq!(all.tokens().map(|(name, _)| name.clone()).collect::<Vec<_>>(), names);
    all.release().await.expect("held to the end");
    until_all_free(harness, &holder, &names).await;
}

/// C16, C39: after a lost request or reply, an acquisition of several locks finds its own grants, and no lock is busy
/// because of it.
pub async fn c39_a_lost_reply_of_several_is_found_again(harness: &dyn Harness) {
    let (locks, faulty) = faulty_client(harness).await;
    for fault in [Fault::RequestLost, Fault::ReplyLost] {
        for wait in [Wait::Never, Wait::AtMost(harness.limit())] {
            let names = names::<3>();
            faulty.once(Operation::Acquire, fault);
            let request = MultiRequest::new(&names).ttl(harness.long_ttl()).wait(wait);
            let all = locks.acquire_all(request).await.expect("nobody else wants them");
            held_as_told(&locks, &all).await;
            all.release().await.expect("held to the end");
            faulty.heal();
            until_all_free(harness, &locks, &names).await;
        }
    }
}

/// C19, C39: a request for several locks that is dropped at any await leaves none: they are free again long before
/// their TTL ends.
pub async fn c39_a_dropped_request_for_several_leaves_nothing(harness: &dyn Harness) {
    let (locks, faulty) = faulty_client(harness).await;
    let names = names::<3>();
    let request = || MultiRequest::new(&names).ttl(harness.long_ttl());
    for polls in 0..20 {
        let mut acquiring = Box::pin(locks.acquire_all(request()));
        for _ in 0..polls {
            if (&mut acquiring).now_or_never().is_some() {
                break;
            }
            yield_now().await;
        }
    }
    until_all_free(harness, &locks, &names).await;
    for fault in [Fault::Silence, Fault::SilenceAfter] {
        faulty.once(Operation::Acquire, fault);
        let given_up = timeout(harness.request_timeout() / 4, locks.acquire_all(request())).await;
        assert!(given_up.is_err(), "a grant whose reply was lost is to be told to nobody");
        faulty.heal();
        until_all_free(harness, &locks, &names).await;
    }
    locks.shutdown().await;
}
