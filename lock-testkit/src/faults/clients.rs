//! Clients, and common steps of the tests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::{
    ClientOptions, DistributedLock, FencingToken, LockClient, LockError, LockGuard, LockRequest,
    OwnerId, Wait,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::harness::Harness;
use super::server::Server;
use crate::{Proxy, eventually};

/// Time limit of everything without its own: far more than anything takes.
pub const LIMIT: Duration = Duration::from_secs(30);

/// The TTL of most holds here: longer than any test.
pub const MINUTE: Duration = Duration::from_secs(60);

/// An acquisition that waits in its own task.
pub type Waiting = JoinHandle<Result<LockGuard, LockError>>;

/// Returns a client with its own connections, to a server or a proxy at `address`.
pub async fn client_at<H: Harness>(address: SocketAddr) -> LockClient {
    client_of::<H>(H::connect_at(address).await)
}

/// Returns a client with a longer request time-out. A busy machine needs a while for a thousand locks, and for the first
/// answers of a server that has just started.
pub(super) async fn client_within<H: Harness>(
    address: SocketAddr,
    request_timeout: Duration,
) -> LockClient {
    let options = ClientOptions::new().request_timeout(request_timeout);
    LockClient::with_options(H::connect_at(address).await, options)
}

/// Returns a client whose connections go through `proxy`.
pub async fn client_through<H: Harness>(proxy: &Proxy) -> LockClient {
    client_at::<H>(proxy.addr()).await
}

/// Returns a client of a server, and another client with a network before it.
pub async fn beside_a_network<H: Harness>(server: &H::Server) -> (LockClient, LockClient, Proxy) {
    let proxy = H::proxy(server).await;
    (client_at::<H>(server.addr()).await, client_through::<H>(&proxy).await, proxy)
}

/// A client of `backend`, with the request time-out of the harness.
pub fn client_of<H: Harness>(backend: Arc<dyn DistributedLock>) -> LockClient {
    LockClient::with_options(backend, ClientOptions::new().request_timeout(H::REQUEST_TIMEOUT))
}

/// A name that no other test uses.
pub fn fresh_name() -> String {
    format!("test-{}", OwnerId::random().expose())
}

/// A request that waits for as long as a test may take, for a TTL of a minute.
pub fn patient(name: &str) -> LockRequest {
    LockRequest::new(name).ttl(MINUTE).wait(Wait::AtMost(LIMIT))
}

/// Returns a hold, once it is granted.
pub async fn held(client: &LockClient, name: &str) -> LockGuard {
    client.acquire(patient(name)).await.expect("its turn comes")
}

/// Ends a hold, which must have lasted until now.
pub async fn released(guard: LockGuard) {
    guard.release().await.expect("it was held to the end");
}

/// Acquires and releases a lock; returns its token.
pub async fn turn(client: &LockClient, name: &str) -> FencingToken {
    let guard = held(client, name).await;
    let token = guard.token();
    released(guard).await;
    token
}

/// Returns once a hold was renewed. It must not be lost meanwhile.
pub async fn renewed(guard: &LockGuard) {
    assert!(is_renewed(guard).await, "a hold that was renewed in time was lost");
}

/// Returns true once a hold was renewed, and false once it is lost.
pub(super) async fn is_renewed(guard: &LockGuard) -> bool {
    let before = guard.deadline();
    let is_told = async || guard.deadline() != before || !guard.is_held();
    eventually("it is renewed, or lost", LIMIT, is_told).await;
    guard.is_held()
}

/// Returns once nobody holds `name`.
pub async fn until_free(observer: &LockClient, name: &str) {
    eventually("the lock is free", LIMIT, async || {
        observer.admin().inspect(name).await.is_ok_and(|state| state.holder().is_none())
    })
    .await;
}

/// Returns once `count` clients wait for `name`; at once if the backend has no queue.
pub async fn until_waiting(observer: &LockClient, name: &str, count: usize) {
    eventually("they queue", LIMIT, async || {
        let state = observer.admin().inspect(name).await;
        state.is_ok_and(|state| state.waiters.is_none_or(|waiters| waiters as usize == count))
    })
    .await;
}

/// Acquires in a task of its own.
pub fn acquiring(client: &LockClient, request: LockRequest) -> Waiting {
    let client = client.clone();
    tokio::spawn(async move { client.acquire(request).await })
}

/// Lets `client` wait for `name`. Returns once it got the answer to wait, and has the only place in the queue if
/// there is one.
pub async fn queued(
    client: &LockClient,
    observer: &LockClient,
    request: LockRequest,
    name: &str,
) -> Waiting {
    let (told, heard) = std::sync::mpsc::channel();
    let request = request.on_wait(move |_| {
        let _ = told.send(());
    });
    let waiting = acquiring(client, request);
    eventually("it is told to wait", LIMIT, async || heard.try_recv().is_ok()).await;
    until_waiting(observer, name, 1).await;
    waiting
}

/// Returns the hold of a waiter, once it is granted.
pub async fn served(waiting: Waiting) -> LockGuard {
    let next = timeout(LIMIT, waiting).await.expect("its turn comes").expect("no panic");
    next.expect("granted")
}

/// Releases a lock, which must be granted to its next waiter within `limit`.
pub async fn served_within(limit: Duration, guard: LockGuard, waiting: Waiting) {
    let start = Instant::now();
    released(guard).await;
    let next = served(waiting).await;
    let took = start.elapsed();
    released(next).await;
    assert!(took < limit, "a waiter is to be served within {limit:?} of the release: {took:?}");
}
