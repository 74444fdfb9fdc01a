//! What the tests share: claims, and machines with other boots and clocks.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{
    Attempt, BackendError, Capabilities, Claim, DistributedLock, Extension, Grant, LockName,
    LockRequest, LockState, MemoryLock, Outcome, OwnerId, Release, Renewal, Waker,
};

use crate::FileLock;
use crate::machine::Machine;

pub(crate) const TTL: Duration = Duration::from_secs(30);

/// A claim of `name` for [`TTL`].
pub(crate) async fn claim(name: &str) -> Claim {
    claim_of(LockRequest::new(name).ttl(TTL).label("the test")).await
}

/// The claim that comes of a request. Only an acquisition makes one, so we listen to one.
pub(crate) async fn claim_of(request: LockRequest) -> Claim {
    let listener = Listener::default();
    let _ = listener.acquire(&request).await;
    let heard = listener.0.lock().expect("not poisoned").take();
    heard.expect("a valid request")
}

/// A renewal of what was granted to `claim`, for `ttl`.
pub(crate) async fn renewal(claim: &Claim, ttl: Duration) -> Renewal {
    let other = claim_of(LockRequest::new(claim.name.as_str()).ttl(ttl)).await;
    let text = format!("lease1:{}:1:1000:{}", claim.owner.expose(), claim.name);
    let lease = lock_core::Lease::import(&text).expect("a lease");
    Renewal::new(&lease, other.ttl)
}

/// The grant, which there must be.
pub(crate) async fn granted(lock: &FileLock, claim: &Claim) -> Grant {
    match lock.try_acquire(claim, None).await.expect("an answer") {
        Attempt::Granted(grant) => grant,
        Attempt::Busy(seen) => panic!("{} was not granted: {seen}", claim.name),
    }
}

pub(crate) async fn is_busy(lock: &FileLock, claim: &Claim) -> bool {
    let attempt = lock.try_acquire(claim, None).await.expect("an answer");
    matches!(attempt, Attempt::Busy(_))
}

/// The locks in `dir` on a machine whose clocks stand still.
pub(crate) fn on(
    dir: &Path,
    boot: &str,
    uptime: fn() -> Duration,
    wall: fn() -> Duration,
) -> FileLock {
    let boot = boot.into();
    let machine = Machine { boot, uptime, wall };
    FileLock::on(machine, dir).expect("a directory")
}

#[derive(Debug, Default)]
struct Listener(Mutex<Option<Claim>>);

#[async_trait]
impl DistributedLock for Listener {
    fn capabilities(&self) -> Capabilities {
        MemoryLock::new().capabilities()
    }

    async fn try_acquire(&self, claim: &Claim, _: Option<&Waker>) -> Result<Attempt, BackendError> {
        *self.0.lock().expect("not poisoned") = Some(claim.clone());
        let (context, source) = ("listening", "nothing is granted here");
        Err(BackendError::permanent("listener", Outcome::NotApplied, context, source))
    }

    async fn extend_all(&self, _: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        Vec::new()
    }

    async fn release(&self, _: &LockName, _: OwnerId) -> Result<Release, BackendError> {
        Ok(Release::NotHeld)
    }

    async fn withdraw(&self, _: &Claim) -> Result<(), BackendError> {
        Ok(())
    }

    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        Ok(LockState::new(name.clone(), None, None))
    }

    async fn list(&self, _: &str, _: usize) -> Result<Vec<LockState>, BackendError> {
        Ok(Vec::new())
    }
}
