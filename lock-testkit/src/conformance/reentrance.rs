//! C43: requests that share one hold.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::harness::Harness;
use super::steps::{client, eventually, faulty_client, fresh_name, patient, until_free};
use crate::Operation;
use lock_core::{LockError, LockGuard, LockName, LockRequest, Reentrance};

fn reentrant(name: &LockName, ttl: Duration, me: &Reentrance) -> LockRequest {
    patient(name, ttl).reentrant(me)
}

/// C43: a holder that asks again shares its hold, and the last guard releases the lock.
pub async fn c43_the_last_guard_of_a_shared_hold_gives_it_back(harness: &dyn Harness) {
    let (locks, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let me = Reentrance::new();
    let request = || reentrant(&name, harness.ttl(), &me);
    let mut guards = Vec::new();
    for _ in 0..3 {
        guards.push(locks.acquire(request()).await.expect("its own lock"));
    }
    let token = guards[0].token();
    let same = guards.iter().all(|guard| guard.token() == token);
    assert!(same, "the guards of one hold are to have one token: {guards:?}");
    guards.remove(0).release().await.expect("held so far");
    drop(guards.remove(0));
    tokio::time::sleep(harness.ttl() * 2).await;
    let holder = other.admin().inspect(&name).await.expect("an answer").holder().cloned();
    let known = holder.and_then(|holder| holder.token);
    assert_eq!(known, Some(token), "a hold is to last until its last guard goes");
    guards.remove(0).release().await.expect("held to the end");
    until_free(harness, &other, &name).await;
}

/// C43: requests of one `Reentrance` at the same time share one hold.
pub async fn c43_requests_at_once_share_a_hold(harness: &dyn Harness) {
    let (holder, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let (locks, faulty) = faulty_client(harness).await;
    let held = holder.acquire(patient(&name, harness.limit())).await.expect("a free lock");
    let me = Reentrance::new();
    let ask = || {
        let (locks, request) = (locks.clone(), reentrant(&name, harness.limit(), &me));
        tokio::spawn(async move { locks.acquire(request).await })
    };
    let given_up = ask();
    eventually(harness, "it waits", async || faulty.calls(Operation::Acquire) > 0).await;
    let asking: Vec<_> = (0..8).map(|_| ask()).collect();
    given_up.abort();
    // The task is over after this. An abort alone may come too late for a grant of the same moment.
    drop(given_up.await);
    held.release().await.expect("held to the end");
    let acquired = join_all(asking).await.into_iter().map(|asked| asked.expect("no panic"));
    let guards: Vec<LockGuard> =
        acquired.collect::<Result<_, _>>().expect("those that are left are to share the hold");
    let same = guards.iter().all(|guard| guard.token() == guards[0].token());
    assert!(same && guards[0].is_held(), "they are to have one token: {guards:?}");
    drop(guards);
    until_free(harness, &other, &name).await;
}

/// C43: a shared hold has the longest TTL of its requests.
pub async fn c43_the_longest_ttl_of_a_shared_hold_counts(harness: &dyn Harness) {
    let (locks, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let (me, long) = (Reentrance::new(), harness.limit() * 3);
    let outer = locks.acquire(reentrant(&name, harness.ttl(), &me)).await.expect("a free lock");
    let inner = locks.acquire(reentrant(&name, long, &me)).await.expect("its own lock");
    eventually(harness, "the longer TTL is granted", async || {
        let holder = other
            .admin()
            .inspect(&name)
            .await
            .expect("an answer")
            .holder()
            .cloned()
            .expect("it is held");
        holder.ttl_left.is_some_and(|left| left > long / 2)
    })
    .await;
    drop(inner);
    outer.release().await.expect("held to the end");
    until_free(harness, &other, &name).await;
}

/// C43: a loss ends all guards of a hold, and the next request acquires the lock anew.
pub async fn c43_what_is_lost_is_acquired_anew(harness: &dyn Harness) {
    let (locks, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let me = Reentrance::new();
    let request = || reentrant(&name, harness.ttl(), &me);
    let one = locks.acquire(request()).await.expect("a free lock");
    let two = locks.acquire(request()).await.expect("its own lock");
    harness.evict(&name).await;
    for guard in [&one, &two] {
        timeout(harness.limit(), guard.lost()).await.expect("each guard is to learn of the loss");
    }
    let anew = locks.acquire(request()).await.expect("a free lock");
    let (old, token) = (one.token(), anew.token());
    assert!(token > old, "what is lost is to be acquired anew: {token} after {old}");
    let ended = one.release().await;
    assert!(matches!(ended, Err(LockError::Lost { .. })), "a loss is to be told: {ended:?}");
    drop(two);
    let again = locks.acquire(request()).await.expect("its own lock");
    assert!(again.token() == token && anew.is_held(), "the old guards are to end nothing");
    drop((anew, again));
    until_free(harness, &other, &name).await;
}
