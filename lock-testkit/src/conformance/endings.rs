//! C20: what becomes of everything when a client or a runtime ends.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

use super::{
    Fault, Harness, LIMIT, Operation, REQUEST_TIMEOUT, SLACK, client, eventually, faulty_client,
    fresh_name, patient, until_free,
};
use lock_core::{LockClient, LockError, LockRequest, Wait};

/// C20: a shutdown gives back what is held and what was dropped, though some of it fails at first.
pub async fn c20_shutdown_gives_everything_back(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let (observer, tag) = (super::client(harness).await, fresh_name());
    let request = |i| LockRequest::new(format!("{tag}-{i}")).ttl(Duration::from_secs(60));
    let mut guards = Vec::new();
    for i in 0..20 {
        guards.push(client.acquire(request(i)).await.expect("a free lock"));
    }
    faulty.once(Operation::Release, Fault::RequestLost);
    faulty.once(Operation::Release, Fault::ReplyLost);
    guards.truncate(10);
    timeout(LIMIT, client.shutdown()).await.expect("it drains");
    assert_eq!(faulty.calls(Operation::Close), 1, "the backend was not told");
    assert_eq!(observer.list(tag.as_str(), 100).await.expect("an answer"), []);
    assert!(guards.iter().all(|guard| !guard.is_held()));
    let refused = client.acquire(request(0)).await;
    assert!(matches!(refused, Err(LockError::Closed { .. })), "{refused:?}");
    for guard in guards {
        let ended = guard.release().await;
        assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
    }
    timeout(LIMIT, client.shutdown()).await.expect("twice does no harm");
}

/// C20: a shutdown ends acquisitions under way, and leaves nothing of them.
pub async fn c20_shutdown_ends_acquisitions_under_way(harness: &dyn Harness) {
    let (holder, name) = (client(harness).await, fresh_name());
    let (waiter, faulty) = faulty_client(harness).await;
    let guard = holder.acquire(patient(&name, Duration::from_secs(60))).await.expect("free");
    let waiting = tokio::spawn({
        let (waiter, request) = (waiter.clone(), patient(&name, LIMIT).wait(Wait::Forever));
        async move { waiter.acquire(request).await }
    });
    eventually("it waits", async || faulty.calls(Operation::TryAcquire) > 0).await;
    timeout(LIMIT, waiter.shutdown()).await.expect("it does not wait for the lock");
    let closed = waiting.await.expect("no panic");
    assert!(matches!(closed, Err(LockError::Closed { .. })), "{closed:?}");
    assert_eq!(holder.inspect(&name).await.expect("an answer").waiters.unwrap_or(0), 0);
    guard.release().await.expect("an answer");
    assert_eq!(holder.inspect(&name).await.expect("an answer").holder, None);
}

/// C20: a shutdown does not wait for acquisitions that nobody polls any more.
pub async fn c20_shutdown_waits_for_no_acquisition_that_nobody_polls(harness: &dyn Harness) {
    let (holder, waiter, name) = (client(harness).await, client(harness).await, fresh_name());
    let guard = holder.acquire(patient(&name, LIMIT * 2)).await.expect("a free lock");
    let mut waiting = pin!(waiter.acquire(patient(&name, LIMIT * 2)));
    assert!(timeout(SLACK, &mut waiting).await.is_err(), "two holders");
    let limit = REQUEST_TIMEOUT + SLACK;
    timeout(limit, waiter.shutdown()).await.expect("it does not wait");
    let closed = timeout(LIMIT, waiting).await.expect("told when it is polled");
    assert!(matches!(closed, Err(LockError::Closed { .. })), "{closed:?}");
    guard.release().await.expect("an answer");
    until_free(&holder, &name).await;
}

/// C20: a shutdown waits for a release that is under way.
pub async fn c20_shutdown_waits_for_a_release_under_way(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let guard = client.acquire(patient(&fresh_name(), LIMIT)).await.expect("a free lock");
    faulty.once(Operation::Release, Fault::Late(SLACK));
    let (mut releasing, mut closing) = (pin!(guard.release()), pin!(client.shutdown()));
    tokio::select! {
        biased;
        released = &mut releasing => {
            released.expect("it was held to the end");
            timeout(LIMIT, closing).await.expect("nothing is left");
        }
        () = &mut closing => panic!("it did not wait"),
    }
}

/// C19, C20: a guard that outlives the runtime of its client's tasks is given back from the runtime
/// in which it is dropped.
pub async fn c20_a_guard_that_outlives_its_runtime_is_given_back(harness: &dyn Harness) {
    let (observer, name, backend) = (client(harness).await, fresh_name(), harness.connect().await);
    let request = patient(&name, LIMIT * 2);
    let acquired = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(async move {
            let client = LockClient::new(backend);
            let guard = client.acquire(request).await.expect("a free lock");
            (client, guard)
        })
    });
    let (_client, guard) = acquired.join().expect("no panic");
    drop(guard);
    until_free(&observer, &name).await;
}
