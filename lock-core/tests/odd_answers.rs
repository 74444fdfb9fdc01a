//! Answers of a backend that a test gives: late pushes, batches that are refused, and times without end.

#![allow(clippy::expect_used, clippy::panic)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::backend::{
    Attempt, Claim, Extension, Grant, Release, Renewal, ServerTime, WaiterHandle, async_trait,
};
use lock_core::{
    BackendError, Capabilities, Contention, DistributedLock, FencingToken, LockClient, LockName,
    LockRequest, MemoryBackend, OwnerId, Wait,
};
use lock_testkit::eventually;
use tokio::time::{sleep, timeout};

const LIMIT: Duration = Duration::from_secs(30);
const TTL: Duration = Duration::from_secs(3);

fn grant(ttl: Duration) -> Grant {
    Grant::new(FencingToken::new(7).expect("a token"), ttl)
}

/// Answers as the test says.
#[derive(Clone, Debug)]
struct Scripted {
    /// The TTL of each grant; `None` if each request is told "busy".
    grants: Option<Duration>,
    /// The time that the holder has left, as a "busy" says.
    ttl_left: Option<Duration>,
    /// The TTL of each extension.
    extends: Duration,
    /// True if a batch is refused.
    refuses_batches: bool,
    waiter: Arc<Mutex<Option<WaiterHandle>>>,
}

impl Scripted {
    fn new() -> Self {
        let (grants, ttl_left) = (Some(TTL), None);
        Self { grants, ttl_left, extends: TTL, refuses_batches: false, waiter: Arc::default() }
    }
}

#[async_trait]
impl DistributedLock for Scripted {
    fn capabilities(&self) -> Capabilities {
        MemoryBackend::new().capabilities()
    }

    async fn acquire(
        &self,
        _: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        if let Some(ttl) = self.grants {
            return Ok(Attempt::Granted(grant(ttl)));
        }
        *self.waiter.lock().expect("no panic") = waiter.cloned();
        let mut seen = Contention::unknown();
        (seen.at, seen.ttl_left) = (Some(ServerTime(Duration::ZERO)), self.ttl_left);
        Ok(Attempt::Busy(seen))
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        let refused = self.refuses_batches && renewals.len() > 1;
        let answer = || match refused {
            true => Err(BackendError::refusal("scripted", "a batch of the test")),
            false => Ok(Extension::Extended(self.extends)),
        };
        renewals.iter().map(|_| answer()).collect()
    }

    async fn release(&self, _: &LockName, _: OwnerId) -> Result<Release, BackendError> {
        Ok(Release::Released)
    }

    async fn withdraw(&self, _: &LockName, _: &[OwnerId]) -> Result<(), BackendError> {
        Ok(())
    }
}

/// C5: a pushed grant counts from its time on the server, however late its message comes.
#[tokio::test(start_paused = true)]
async fn c05_a_pushed_grant_that_comes_late_is_shorter_by_that() {
    let backend = Scripted { grants: None, ..Scripted::new() };
    let (client, waiter) = (LockClient::new(backend.clone()), backend.waiter.clone());
    let waiting = tokio::spawn(async move {
        let guard = client.acquire(LockRequest::new("a").ttl(TTL)).await.expect("a grant");
        guard.remaining()
    });
    eventually("it waits", LIMIT, async || waiter.lock().expect("no panic").is_some()).await;
    let (granted_at, late) = (Duration::from_millis(100), Duration::from_millis(500));
    sleep(late).await;
    let waiter = waiter.lock().expect("no panic").take().expect("it waits");
    waiter.granted(grant(TTL).at(ServerTime(granted_at)));
    let remaining = waiting.await.expect("no panic");
    assert!(remaining <= TTL - (late - granted_at), "it believes for {remaining:?} more");
}

/// C12: if a server refuses a batch, each hold of the batch is renewed alone, also if more are refused than are later
/// renewed alone after an outage.
#[tokio::test(start_paused = true)]
async fn c12_a_refused_batch_is_renewed_one_by_one() {
    let client = LockClient::new(Scripted { refuses_batches: true, ..Scripted::new() });
    let mut guards = Vec::new();
    for i in 0..500 {
        let request = LockRequest::new(format!("held-{i}")).ttl(TTL);
        guards.push(client.acquire(request).await.expect("a grant"));
    }
    sleep(TTL * 5).await;
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    assert_eq!(lost, 0);
}

/// C20: a backend without expiry grants, extends and is busy for ever, and ends no process.
#[tokio::test(start_paused = true)]
async fn c20_a_time_without_end_does_no_harm() {
    let endless = Duration::MAX;
    for (grants, extends) in [(endless, endless), (TTL, endless), (endless, TTL)] {
        let backend = Scripted { grants: Some(grants), extends, ..Scripted::new() };
        let client = LockClient::new(backend);
        let request = || LockRequest::new("a").ttl(TTL);
        let guard = client.acquire(request()).await.expect("a grant");
        guard.extend(TTL * 2).await.expect("an answer");
        sleep(TTL * 2).await;
        assert!(guard.is_held());
        let lease = guard.detach().expect("it is held");
        drop(client.attach(lease).await.expect("it is held"));
        client.acquire(request()).await.expect("a grant").release().await.expect("held");
        drop(client.acquire_all(["a", "b"]).await.expect("two grants"));
        timeout(LIMIT, client.shutdown()).await.expect("all is given back");
    }
    let busy = Scripted { grants: None, ttl_left: Some(endless), ..Scripted::new() };
    let waits = LockRequest::new("a").wait(Wait::AtMost(TTL));
    let refused = LockClient::new(busy).acquire(waits).await.expect_err("it is held");
    assert!(refused.is_busy(), "{refused}");
}
