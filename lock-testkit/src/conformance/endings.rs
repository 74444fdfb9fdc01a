//! C20: the end of a client or of a runtime.

use std::pin::pin;

use tokio::time::timeout;

use super::harness::Harness;
use super::steps::{client, eventually, faulty_client, fresh_name, patient, until_free};
use crate::{Fault, Operation};
use lock_core::{LockClient, LockError, LockGuard, LockRequest, Wait};

/// C20: a shutdown gives back all held and dropped locks, even if some requests fail at first.
pub async fn c20_shutdown_gives_everything_back(harness: &dyn Harness) {
    let observer = client(harness).await;
    let (client, faulty) = faulty_client(harness).await;
    let tag = fresh_name();
    let request = |i| LockRequest::new(format!("{tag}-{i}")).ttl(harness.long_ttl());
    let mut guards = Vec::new();
    for i in 0..20 {
        guards.push(client.acquire(request(i)).await.expect("a free lock"));
    }
    faulty.once(Operation::Release, Fault::RequestLost);
    faulty.once(Operation::Release, Fault::ReplyLost);
    guards.truncate(10);
    timeout(harness.limit(), client.shutdown()).await.expect("it drains");
    assert_eq!(faulty.calls(Operation::Close), 1, "a shutdown is to close the backend");
    let left = observer.admin().list(tag.as_str(), 100).await.expect("an answer");
    assert_eq!(left, [], "a shutdown is to give back what is held and what was dropped");
    let over = guards.iter().all(|guard| !guard.is_held());
    assert!(over, "no guard is to believe in its hold after a shutdown");
    let refused = client.acquire(request(0)).await;
    let is_closed = matches!(refused, Err(LockError::Closed { .. }));
    assert!(is_closed, "a client that was shut down is to refuse acquisitions: {refused:?}");
    for guard in guards {
        let ended = guard.release().await;
        let is_lost = matches!(ended, Err(LockError::Lost { .. }));
        assert!(is_lost, "a release after a shutdown is to tell of the loss: {ended:?}");
    }
    timeout(harness.limit(), client.shutdown()).await.expect("twice does no harm");
}

/// C20: a shutdown ends acquisitions in flight, and leaves nothing of them.
pub async fn c20_shutdown_ends_acquisitions_under_way(harness: &dyn Harness) {
    let (holder, name) = (client(harness).await, fresh_name());
    let (waiter, faulty) = faulty_client(harness).await;
    let guard = holder.acquire(patient(&name, harness.long_ttl())).await.expect("free");
    let waiting = tokio::spawn({
        let (waiter, request) =
            (waiter.clone(), patient(&name, harness.long_ttl()).wait(Wait::Forever));
        async move { waiter.acquire(request).await }
    });
    eventually(harness, "it waits", async || faulty.calls(Operation::Acquire) > 0).await;
    timeout(harness.limit(), waiter.shutdown()).await.expect("it does not wait for the lock");
    let closed = waiting.await.expect("no panic");
    told_as_closed(closed);
    let waiters = holder.admin().inspect(&name).await.expect("an answer").waiters.unwrap_or(0);
    assert_eq!(waiters, 0, "a shutdown is to leave no place in the queue");
    guard.release().await.expect("an answer");
    let next = holder.admin().inspect(&name).await.expect("an answer").holder().cloned();
    assert_eq!(next, None, "an acquisition that a shutdown ended is to be granted nothing");
}

fn told_as_closed(acquired: Result<LockGuard, LockError>) {
    let is_closed = matches!(acquired, Err(LockError::Closed { .. }));
    assert!(is_closed, "an acquisition is to be told of the shutdown that ends it: {acquired:?}");
}

/// C20: a shutdown does not wait for acquisitions that nobody polls.
pub async fn c20_shutdown_waits_for_no_acquisition_that_nobody_polls(harness: &dyn Harness) {
    let (holder, (waiter, _)) = (client(harness).await, faulty_client(harness).await);
    let name = fresh_name();
    let guard = holder.acquire(patient(&name, harness.long_ttl())).await.expect("a free lock");
    let mut waiting = pin!(waiter.acquire(patient(&name, harness.long_ttl())));
    let waits = timeout(harness.moment(), &mut waiting).await.is_err();
    assert!(waits, "a lock that is held is to be granted to nobody else");
    let limit = harness.request_timeout() + harness.slack();
    timeout(limit, waiter.shutdown()).await.expect("it does not wait");
    let closed = timeout(harness.limit(), waiting).await.expect("told when it is polled");
    told_as_closed(closed);
    guard.release().await.expect("an answer");
    until_free(harness, &holder, &name).await;
}

/// C20: a shutdown waits for a release in flight.
pub async fn c20_shutdown_waits_for_a_release_under_way(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let guard =
        client.acquire(patient(&fresh_name(), harness.long_ttl())).await.expect("a free lock");
    faulty.once(Operation::Release, Fault::Late(harness.moment()));
    let (mut releasing, mut closing) = (pin!(guard.release()), pin!(client.shutdown()));
    tokio::select! {
        biased;
        released = &mut releasing => {
            released.expect("it was held to the end");
            timeout(harness.limit(), closing).await.expect("nothing is left");
        }
        () = &mut closing => panic!("a shutdown is to wait for a release under way"),
    }
}

/// C19, C20: a guard that outlives the runtime of its client's tasks is given back from the runtime in which it is
/// dropped.
pub async fn c20_a_guard_that_outlives_its_runtime_is_given_back(harness: &dyn Harness) {
    let (observer, name, backend) = (client(harness).await, fresh_name(), harness.connect().await);
    let request = patient(&name, harness.long_ttl());
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
    until_free(harness, &observer, &name).await;
}
