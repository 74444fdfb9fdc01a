//! Clients, and what most tests do with them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::{
    ClientOptions, DistributedLock, FencingToken, LockClient, LockError, LockGuard, LockRequest,
    OwnerId, Wait,
};
use lock_testkit::{Proxy, eventually};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{LIMIT, MINUTE, REQUEST_TIMEOUT, SLACK, Server};

/// An acquisition that waits in a task of its own.
pub(crate) type Waiting = JoinHandle<Result<LockGuard, LockError>>;

/// A client with connections of its own.
pub(crate) async fn client(url: &str) -> LockClient {
    client_of(leasehold::backend(url).await.expect("a connection"))
}

pub(crate) fn client_of(lock: Arc<dyn DistributedLock>) -> LockClient {
    LockClient::with_options(lock, ClientOptions::new().request_timeout(REQUEST_TIMEOUT))
}

/// A client whose connections go through `proxy`.
pub(crate) async fn client_through<S: Server>(proxy: &Proxy) -> LockClient {
    client(&S::url_at(proxy.addr())).await
}

pub(crate) fn fresh_name() -> String {
    format!("test-{}", OwnerId::random().expose())
}

/// A request that waits for as long as a test may take, for a TTL of a minute.
pub(crate) fn patient(name: &str) -> LockRequest {
    LockRequest::new(name).ttl(MINUTE).wait(Wait::AtMost(LIMIT))
}

/// A hold, once it is its turn.
pub(crate) async fn held(client: &LockClient, name: &str) -> LockGuard {
    client.acquire(patient(name)).await.expect("its turn comes")
}

pub(crate) async fn released(guard: LockGuard) {
    guard.release().await.expect("it was held to the end");
}

/// Takes a lock and gives it back; the token it had.
pub(crate) async fn turn(client: &LockClient, name: &str) -> FencingToken {
    let guard = held(client, name).await;
    let token = guard.token();
    released(guard).await;
    token
}

/// Returns once a hold was renewed. It must not be lost meanwhile.
pub(crate) async fn renewed(guard: &LockGuard) {
    let before = guard.deadline();
    eventually("it is renewed", LIMIT, async || guard.deadline() != before).await;
    assert!(guard.is_held(), "lost");
}

/// Returns once nobody holds `name`.
pub(crate) async fn until_free(observer: &LockClient, name: &str) {
    eventually("the lock is free", LIMIT, async || {
        observer.inspect(name).await.expect("an answer").holder.is_none()
    })
    .await;
}

/// Returns once `count` clients wait for `name`.
pub(crate) async fn until_waiting(observer: &LockClient, name: &str, count: usize) {
    eventually("they queue", LIMIT, async || {
        let state = observer.inspect(name).await;
        state.is_ok_and(|state| state.waiters.is_some_and(|waiters| waiters as usize == count))
    })
    .await;
}

/// Lets `client` wait for `name`, and returns once it has the only place in the queue.
pub(crate) async fn queued(
    client: &LockClient,
    observer: &LockClient,
    request: LockRequest,
    name: &str,
) -> Waiting {
    let client = client.clone();
    let waiting = tokio::spawn(async move { client.acquire(request).await });
    until_waiting(observer, name, 1).await;
    waiting
}

/// The hold of a waiter, once it is its turn.
pub(crate) async fn served(waiting: Waiting) -> LockGuard {
    let next = timeout(LIMIT, waiting).await.expect("its turn comes").expect("no panic");
    next.expect("granted")
}

/// Releases a lock, which its next waiter has within `limit`.
pub(crate) async fn served_within(limit: Duration, guard: LockGuard, waiting: Waiting) {
    let start = Instant::now();
    released(guard).await;
    let next = served(waiting).await;
    let took = start.elapsed();
    released(next).await;
    assert!(took < limit + SLACK, "served after {took:?}");
}
