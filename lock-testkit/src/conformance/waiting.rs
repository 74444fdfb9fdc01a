//! C26 to C28: service of waiters.

use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use super::harness::Harness;
use super::steps::{
    answered, client, eventually, faulty_client, fresh_name, patient, unhurried_client, until_free,
};
use crate::{Fault, Operation};
use lock_core::backend::FALLBACK_POLL;
use lock_core::{LockClient, LockName, Order, Wakeup};

/// Returns the server's count of waiters for `name`; `None` where the backend has no queue.
async fn waiters(harness: &dyn Harness, observer: &LockClient, name: &LockName) -> Option<u64> {
    answered(harness, async || observer.admin().inspect(name).await).await.waiters
}

/// C26: many waiters of one client have one place on the server; all of them are served.
pub async fn c26_waiters_of_a_client_share_one_place(harness: &dyn Harness) {
    const TASKS: usize = 50;
    let (holder, waiter, name) = (client(harness).await, client(harness).await, fresh_name());
    let guard = holder.acquire(patient(&name, harness.long_ttl())).await.expect("a free lock");
    let (most, served) = (Mutex::new(0), Mutex::new(0));
    let tasks = (0..TASKS).map(async |_| {
        let guard =
            waiter.acquire(patient(&name, harness.long_ttl())).await.expect("its turn comes");
        *served.lock().expect("no panic") += 1;
        let seen = waiters(harness, &holder, &name).await.unwrap_or(0);
        let most_before = most.lock().map(|most| *most).expect("no panic");
        *most.lock().expect("no panic") = seen.max(most_before);
        guard.release().await.expect("an answer");
    });
    let release = async {
        if waiters(harness, &holder, &name).await.is_some() {
            eventually(harness, "they queue", async || {
                waiters(harness, &holder, &name).await == Some(1)
            })
            .await;
        }
        guard.release().await.expect("an answer");
    };
    tokio::join!(join_all(tasks), release);
    let served = served.into_inner().expect("no panic");
    assert_eq!(served, TASKS, "every waiter is to be served");
    let most = most.into_inner().expect("no panic");
    assert!(most <= 1, "the waiters of a client are to share one place on the server: {most}");
    until_free(harness, &holder, &name).await;
}

/// C27, L5: if the backend is fair, clients are served in the order of their arrival.
pub async fn c27_first_come_first_served(harness: &dyn Harness) {
    let (holder, name) = (client(harness).await, fresh_name());
    if holder.capabilities().order != Order::Fifo {
        return;
    }
    let guard = holder.acquire(patient(&name, harness.long_ttl())).await.expect("a free lock");
    let (served, mut tasks) = (std::sync::Arc::new(Mutex::new(Vec::new())), Vec::new());
    for place in 0..6u64 {
        let (waiter, served) = (client(harness).await, served.clone());
        let request = patient(&name, harness.long_ttl());
        tasks.push(tokio::spawn(async move {
            let guard = waiter.acquire(request).await.expect("its turn comes");
            served.lock().expect("no panic").push(place);
            guard.release().await.expect("an answer");
        }));
        eventually(harness, "it queues", async || {
            waiters(harness, &holder, &name).await == Some(place + 1)
        })
        .await;
    }
    guard.release().await.expect("an answer");
    timeout(harness.limit(), join_all(tasks)).await.expect("all are served");
    let served = served.lock().expect("no panic").clone();
    assert_eq!(served, [0, 1, 2, 3, 4, 5], "a fair backend is to serve first come, first served");
}

/// C27: a waiter gets in after the release, long before any TTL ends.
pub async fn c27_a_release_lets_the_next_one_in(harness: &dyn Harness) {
    let (one, two, name) = (client(harness).await, client(harness).await, fresh_name());
    let ttl = harness.limit() * 10;
    let mut guard = one.acquire(patient(&name, ttl)).await.expect("a free lock");
    let mut took = Vec::new();
    for waiter in [&two, &one].into_iter().cycle().take(20) {
        let (told, heard) = std::sync::mpsc::channel();
        let request = patient(&name, ttl).on_wait(move |_| {
            let _ = told.send(());
        });
        let hand_over = async {
            eventually(harness, "it waits", async || heard.try_recv().is_ok()).await;
            let released = Instant::now();
            guard.release().await.expect("it was held to the end");
            released
        };
        let (next, released) = tokio::join!(waiter.acquire(request), hand_over);
        guard = next.expect("a waiter is to get in after a release, long before the TTL ends");
        took.push(released.elapsed());
    }
    guard.release().await.expect("it was held to the end");
    took.sort_unstable();
    // A missed push costs a second, which most waiters must not notice.
    let told = match one.capabilities().wakeup {
        Wakeup::Poll(pause) => pause,
        _ => FALLBACK_POLL / 4,
    };
    let (usual, bound) = (took[took.len() / 2], told + harness.moment());
    assert!(usual < bound, "a release is to let the next one in within {bound:?}: {took:?}");
}

/// C28: a dead holder delays the next one by at most the rest of its TTL and a second, and by one more unit if the
/// server counts TTLs in units.
pub async fn c28_a_dead_holder_costs_no_more_than_its_ttl(harness: &dyn Harness) {
    let (holder, waiter, name) = (client(harness).await, client(harness).await, fresh_name());
    let ttl = harness.ttl();
    let died = holder.acquire(patient(&name, ttl)).await.expect("a free lock").detach();
    let (died, asked) = (died.expect("held"), Instant::now());
    let guard = waiter.acquire(patient(&name, ttl)).await.expect("its turn comes");
    let waited = asked.elapsed();
    assert!(guard.token() > died.token(), "each grant is to have a greater token");
    let unit = holder.capabilities().ttl_granularity;
    let bound = died.ttl() + unit + Duration::from_secs(1) + harness.slack();
    assert!(waited < bound, "a dead holder is to cost the next one {bound:?} at most: {waited:?}");
    guard.release().await.expect("an answer");
}

/// C28: if waiters are woken by push, the first attempt of a waiter ends with a place in the queue and a
/// subscription: it misses no release between its look and its subscription.
pub async fn c28_a_waiter_is_queued_by_its_first_attempt(harness: &dyn Harness) {
    let (holder, name) = (client(harness).await, fresh_name());
    let queue = waiters(harness, &holder, &name).await.is_some();
    if holder.capabilities().wakeup != Wakeup::Push || !queue {
        return;
    }
    let (waiter, faulty) = unhurried_client(harness).await;
    let turn = async |name: &LockName| {
        let request = || patient(name, harness.long_ttl());
        let guard = holder.acquire(request()).await.expect("a free lock");
        let release = async {
            eventually(harness, "it queues", async || {
                waiters(harness, &holder, name).await == Some(1)
            })
            .await;
            guard.release().await.expect("an answer");
        };
        let (next, ()) = tokio::join!(waiter.acquire(request()), release);
        next.expect("granted").release().await.expect("an answer");
    };
    // Opens the connections of the waiter.
    turn(&fresh_name()).await;
    // Only the first attempt reaches the server.
    faulty.once(Operation::Acquire, Fault::Late(Duration::ZERO));
    faulty.always(Operation::Acquire, Fault::Silence);
    turn(&name).await;
}

/// C28: a waiter whose client has gone does not keep the others waiting.
pub async fn c28_a_waiter_that_left_costs_nothing(harness: &dyn Harness) {
    let (holder, name) = (client(harness).await, fresh_name());
    let (next, faulty) = faulty_client(harness).await;
    let guard = holder.acquire(patient(&name, harness.long_ttl())).await.expect("a free lock");
    // A client whose runtime is gone can neither renew its place nor withdraw it.
    let (dead, unanswered) = faulty_client(harness).await;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (alive, dies) = tokio::sync::oneshot::channel::<()>();
    runtime.spawn({
        let (dead, request) = (dead.clone(), patient(&name, harness.long_ttl()));
        async move {
            let _alive = alive;
            dead.acquire(request).await.map(|guard| guard.detach())
        }
    });
    if waiters(harness, &holder, &name).await.is_some() {
        eventually(harness, "it queues", async || {
            waiters(harness, &holder, &name).await == Some(1)
        })
        .await;
    }
    eventually(harness, "it asks", async || unanswered.calls(Operation::Acquire) > 0).await;
    // A request in flight could be granted the lock for its whole TTL. The next call begins after its answer, and is
    // never answered.
    unanswered.always(Operation::Acquire, Fault::Silence);
    let before = unanswered.calls(Operation::Acquire);
    let has_asked_again = async || unanswered.calls(Operation::Acquire) > before;
    eventually(harness, "it asks again", has_asked_again).await;
    runtime.shutdown_background();
    // A running task continues for a moment, and could acquire the lock.
    let _ = dies.await;
    let request = patient(&name, harness.long_ttl());
    let waiting = tokio::spawn(async move { next.acquire(request).await });
    eventually(harness, "it waits", async || faulty.calls(Operation::Acquire) > 0).await;
    let released = Instant::now();
    guard.release().await.expect("an answer");
    let guard = timeout(harness.limit(), waiting).await.expect("its turn comes").expect("no panic");
    let waited = released.elapsed();
    // Three seconds is the liveness bound; a closed connection costs nothing.
    let bound = Duration::from_secs(4) + harness.slack();
    assert!(waited < bound, "a dead waiter is to cost the next one {bound:?} at most: {waited:?}");
    guard.expect("granted").release().await.expect("an answer");
    drop(dead);
}

/// C28: a waiter gets in after an eviction, long before any TTL ends.
pub async fn c28_an_eviction_lets_the_next_one_in(harness: &dyn Harness) {
    let (holder, waiter, name) = (client(harness).await, client(harness).await, fresh_name());
    let evicted = holder.acquire(patient(&name, harness.limit() * 10)).await.expect("a free lock");
    let (told, heard) = std::sync::mpsc::channel();
    let request = patient(&name, harness.limit() * 10).on_wait(move |seen| {
        let _ = told.send(seen.clone());
    });
    let waiting = waiter.acquire(request);
    let evict = async {
        eventually(harness, "it waits", async || heard.try_recv().is_ok()).await;
        holder.admin().evict(&name).await.expect("an answer").pop().expect("it was held")
    };
    let (next, _) = tokio::join!(waiting, evict);
    let next = next.expect("a waiter is to get in after an eviction, long before the TTL ends");
    assert!(next.token() > evicted.token(), "the next holder is to have a greater token");
    next.release().await.expect("an answer");
}
