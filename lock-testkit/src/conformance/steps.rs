//! Common first and last steps of most cases.

use crate::Expect;
use std::time::Duration;

use lock_core::backend::{Attempt, Claim, Grant, Renewal};
use lock_core::{
    ClientOptions, DistributedLock, FencingToken, Holder, Lease, LockClient, LockError, LockName,
    LockRequest, OwnerId, Wait,
};
use tokio::time::{Instant, sleep};

use super::harness::Harness;
use crate::Faulty;

/// Returns a name that no other test uses.
pub(super) fn fresh_name() -> LockName {
    LockName::new(format!("conformance-{}", OwnerId::random().expose())).expect("a good name")
}

/// Lets a request without a wait wait for as long as any case may take.
pub(super) fn options(harness: &dyn Harness) -> ClientOptions {
    let wait = Wait::AtMost(harness.limit());
    ClientOptions::new().request_timeout(harness.request_timeout()).wait(wait)
}

/// Like [`options`], for a client whose answers only the machine can delay: its request time-out is five times as long.
fn unhurried(harness: &dyn Harness) -> ClientOptions {
    options(harness).request_timeout(harness.request_timeout() * 5)
}

/// Returns a client with its own connection, whose answers only the machine can delay.
pub(super) async fn client(harness: &dyn Harness) -> LockClient {
    LockClient::with_options(harness.connect().await, unhurried(harness))
}

/// Returns a client with its own connection, and the place to inject faults into it.
pub(super) async fn faulty_client(harness: &dyn Harness) -> (LockClient, Faulty) {
    let faulty = Faulty::new(harness.connect().await);
    (LockClient::with_options(faulty.clone(), options(harness)), faulty)
}

/// Like [`faulty_client`], for a case that counts calls: an answer is late by a fault of the case alone.
pub(super) async fn unhurried_client(harness: &dyn Harness) -> (LockClient, Faulty) {
    let faulty = Faulty::new(harness.connect().await);
    (LockClient::with_options(faulty.clone(), unhurried(harness)), faulty)
}

/// A claim on `name` by a new owner.
pub(super) fn claim(name: &LockName, ttl: Duration) -> Claim {
    patient(name, ttl).claim().expect("a good claim")
}

/// Returns a request for `name` that waits for as long as any case may take, as the clients here do.
pub(super) fn patient(name: &LockName, ttl: Duration) -> LockRequest {
    LockRequest::from(name).ttl(ttl)
}

/// Returns the answer to a claim. If it does not arrive in time, the claim is repeated, and gets the same hold (C16).
pub(super) async fn attempt(backend: &dyn DistributedLock, claim: &Claim) -> Attempt {
    for _ in 0..20 {
        match backend.acquire(claim, None).await {
            Ok(attempt) => return attempt,
            Err(error) => assert!(error.is_transient(), "an answer: {error}"),
        }
    }
    panic!("the server is to answer");
}

/// Returns the grant of a claim on a free lock.
pub(super) async fn granted(backend: &dyn DistributedLock, claim: &Claim) -> Grant {
    match attempt(backend, claim).await {
        Attempt::Granted(grant) => grant,
        Attempt::Busy(seen) => panic!("the server is to grant a free lock, and said: {seen}"),
    }
}

/// Asks to extend the hold that `claim` was granted under `token`, by the TTL of the claim.
pub(super) fn renewal(claim: &Claim, token: FencingToken) -> Renewal {
    let (owner, ttl) = (claim.owner.expose(), claim.ttl.as_millis());
    let text = format!("lease1:{owner}:{token}:{ttl}:{}", claim.name.as_str());
    Renewal::new(&Lease::import(&text).expect("a lease"), claim.ttl)
}

/// Waits for a condition, and names it if it does not come.
pub(super) async fn eventually(
    harness: &dyn Harness,
    what: &str,
    mut holds: impl AsyncFnMut() -> bool,
) {
    let end = Instant::now() + harness.limit();
    while !holds().await {
        assert!(Instant::now() < end, "this was expected, and did not come to pass: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Returns the answer to a question. The question is repeated while the machine is too busy to answer in time.
pub(super) async fn answered<T>(
    harness: &dyn Harness,
    mut ask: impl AsyncFnMut() -> Result<T, LockError>,
) -> T {
    let end = Instant::now() + harness.limit();
    loop {
        match ask().await {
            Err(error) if error.is_transient() && Instant::now() < end => {}
            answer => return answer.expect("an answer"),
        }
    }
}

/// Returns the holder of a lock.
pub(super) async fn held_by(observer: &LockClient, name: &LockName) -> Holder {
    let state = observer.admin().inspect(name).await.expect("an answer");
    state.holder().cloned().expect("held")
}

/// Waits until nobody holds `name` or waits for it.
pub(super) async fn until_free(harness: &dyn Harness, observer: &LockClient, name: &LockName) {
    eventually(harness, "the lock is free and nobody waits", async || {
        let state = answered(harness, async || observer.admin().inspect(name).await).await;
        state.holder().is_none() && state.waiters.unwrap_or(0) == 0
    })
    .await;
}

/// Waits until the server says that nobody holds `name`.
pub(super) async fn until_expired(
    harness: &dyn Harness,
    backend: &dyn DistributedLock,
    name: &LockName,
) {
    eventually(harness, "a hold that nobody renews expires", async || {
        backend.expect_admin().inspect(name).await.is_ok_and(|state| state.holder().is_none())
    })
    .await;
}
