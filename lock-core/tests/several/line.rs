//! Several locks beside other requests of their client.

use lock_core::{LockRequest, Wait};
use lock_testkit::{Fault, Operation};
use tokio::time::{sleep, timeout};

use super::{MS, NAMES, SECOND, clients, fail_at, holds_nothing};

/// C26, C39: waiters of the same client that already wait for one of the locks are served first.
#[tokio::test(start_paused = true)]
async fn c26_several_locks_pass_nobody_of_their_client() {
    let (locks, _, other) = clients();
    let guard = other.acquire("b").await.expect("a free lock");
    let first = tokio::spawn({
        let locks = locks.clone();
        async move { locks.acquire("b").await.expect("its turn comes") }
    });
    sleep(100 * MS).await;
    let several = tokio::spawn(async move { locks.acquire_all(NAMES).await });
    sleep(100 * MS).await;
    guard.release().await.expect("it was held");
    let first = first.await.expect("no panic");
    sleep(SECOND).await;
    assert!(!several.is_finished(), "it passed one that came before");
    first.release().await.expect("it was held");
    let all = several.await.expect("no panic").expect("its turn comes");
    all.release().await.expect("held to the end");
}

/// C26, C39: several locks keep their place behind an earlier request of their client, even if the server does
/// not know that request yet and so would grant the lock.
#[tokio::test(start_paused = true)]
async fn c26_several_locks_do_not_overtake_a_request_of_their_client() {
    let (locks, faulty, _) = clients();
    faulty.once(Operation::Acquire, Fault::Silence);
    let first = tokio::spawn({
        let locks = locks.clone();
        async move { locks.acquire("b").await.expect("its turn comes") }
    });
    sleep(100 * MS).await;
    let several = tokio::spawn(async move { locks.acquire_all(NAMES).await });
    let first = first.await.expect("no panic");
    assert!(!several.is_finished(), "it passed one that came before");
    first.release().await.expect("it was held");
    let all = several.await.expect("no panic").expect("its turn comes");
    all.release().await.expect("held to the end");
}

/// C26, C39: a claim whose request had no answer does not wait behind others of its client, which wait for the
/// lock that it was granted.
#[tokio::test(start_paused = true)]
async fn c26_a_claim_without_an_answer_is_not_behind_those_who_wait_for_it() {
    let (locks, faulty, other) = clients();
    fail_at(1, &faulty, Fault::SilenceAfter);
    let several = tokio::spawn({
        let locks = locks.clone();
        async move { locks.acquire_all(NAMES).await }
    });
    sleep(100 * MS).await;
    let later = tokio::spawn(async move { locks.acquire("b").await });
    let all = timeout(5 * SECOND, several).await.expect("long before its TTL");
    let all = all.expect("no panic").expect("nobody else has them");
    all.release().await.expect("held to the end");
    drop(later.await.expect("no panic").expect("its turn comes"));
    holds_nothing(&other, "after the release").await;
}

/// C39: a request that waits for one lock does not block its client's requests for the later locks. Otherwise a
/// task that holds a lock and asks for the others, in order, would deadlock with it.
#[tokio::test(start_paused = true)]
async fn c39_what_is_not_taken_is_free_for_others_of_the_client() {
    let (locks, _, other) = clients();
    let held = locks.acquire("a").await.expect("a free lock");
    let several = tokio::spawn({
        let locks = locks.clone();
        async move { locks.acquire_all(NAMES).await }
    });
    sleep(SECOND).await;
    for name in ["b", "c"] {
        let free = locks.acquire(LockRequest::new(name).wait(Wait::AtMost(SECOND))).await;
        free.expect("nobody holds it").release().await.expect("it was held");
    }
    held.release().await.expect("it was held");
    drop(several.await.expect("no panic").expect("its turn comes"));
    holds_nothing(&other, "after the release").await;
}
