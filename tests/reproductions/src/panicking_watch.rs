//! A panic between the grant and the guard leaves a lock that is renewed for ever.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use leasehold::core::backend::{
    Attempt, Claim, Extension, LossWatch, Release, Renewal, WaiterHandle,
};
use leasehold::core::{BackendError, Capabilities, DistributedLock, Lease, LockName, OwnerId};
use leasehold::{LockClient, LockRequest, backend, connect};
use lock_testkit::RedisServer;
use tokio::time::sleep;

use crate::verdict::Verdict;

const TTL: Duration = Duration::from_secs(1);

/// A backend whose watch for losses panics, as an author's may.
#[derive(Debug)]
struct Panicking(Arc<dyn DistributedLock>);

#[async_trait]
impl DistributedLock for Panicking {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        self.0.acquire(claim, waiter).await
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        self.0.extend(renewals).await
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.0.release(name, owner).await
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        self.0.withdraw(name, owners).await
    }

    fn watch(&self, _lease: &Lease) -> Option<LossWatch> {
        panic!("a bug of the backend")
    }
}

pub(crate) async fn run() -> Verdict {
    let server = RedisServer::start().await;
    let client = LockClient::new(Panicking(backend(&server.url()).await.expect("a connection")));
    let request = LockRequest::new("a").ttl(TTL);
    let asked = client.clone();
    let acquired = tokio::spawn(async move { asked.acquire(request).await.map(drop) }).await;
    let outcome = match &acquired {
        Ok(Ok(())) => "a guard, which was dropped",
        Ok(Err(_)) => "an error",
        Err(_) => "a panic",
    };
    sleep(TTL * 5).await;
    let observer = connect(&server.url()).await.expect("a connection");
    let state = observer.admin().inspect("a").await.expect("an answer");
    let is_held = state.holder().is_some();
    let held = if is_held { "is still held" } else { "is free" };
    let seen = format!("the caller got {outcome}, and after five TTLs the lock {held}");
    Verdict::of("without a guard the lock is free after its TTL", seen, !is_held)
}
