//! Parts shared by the tests: claims, and machines with other boots and clocks.

use std::path::Path;
use std::time::Duration;

use lock_core::backend::{Attempt, Claim, Grant, Renewal};
use lock_core::{DistributedLock, FencingToken, Holder, LockAdmin, LockRequest, Ttl};
use uuid::Uuid;

use crate::FileBackend;
use crate::directory::Queueing;
use crate::machine::Machine;
use crate::path::FileSystem;

pub(crate) const TTL: Duration = Duration::from_secs(30);

/// A claim of `name` for [`TTL`].
pub(crate) fn claim(name: &str) -> Claim {
    claim_of(LockRequest::new(name).ttl(TTL).label("the test"))
}

/// Returns the claim of a request.
pub(crate) fn claim_of(request: LockRequest) -> Claim {
    request.claim().expect("a valid request")
}

/// Returns a renewal of the hold that was granted to `claim`, for `ttl`.
pub(crate) fn renewal(claim: &Claim, token: FencingToken, ttl: Duration) -> Renewal {
    let text = format!("lease1:{}:{token}:1000:{}", claim.owner.expose(), claim.name);
    let lease = lock_core::Lease::import(&text).expect("a lease");
    Renewal::new(&lease, Ttl::new(ttl).expect("a TTL"))
}

/// Returns the grant; panics if there is none.
pub(crate) async fn granted(lock: &FileBackend, claim: &Claim) -> Grant {
    match lock.acquire(claim, None).await.expect("an answer") {
        Attempt::Granted(grant) => grant,
        Attempt::Busy(seen) => panic!("{} was not granted: {seen}", claim.name),
    }
}

pub(crate) async fn is_busy(lock: &FileBackend, claim: &Claim) -> bool {
    let attempt = lock.acquire(claim, None).await.expect("an answer");
    matches!(attempt, Attempt::Busy(_))
}

/// Queues a claim whose process listens on the socket of this name.
pub(crate) async fn queue_at(lock: &FileBackend, claim: &Claim, socket: Uuid) {
    let attempt = lock.try_once(claim, Queueing::Listening(socket)).await.expect("an answer");
    assert!(matches!(attempt, Attempt::Busy(_)), "{} was free", claim.name);
}

/// Returns the holder of the lock called `name`.
pub(crate) async fn holder(lock: &FileBackend, name: &str) -> Option<Holder> {
    lock.inspect(&claim(name).name).await.expect("an answer").holder().cloned()
}

/// Returns the locks in `dir` on a machine whose clocks stand still. `-` is the boot of a container whose boot id
/// proves nothing.
pub(crate) fn on(
    dir: &Path,
    boot: &str,
    uptime: fn() -> Duration,
    wall: fn() -> Duration,
) -> FileBackend {
    let boot = (boot != "-").then(|| boot.into());
    let machine = Machine { boot, offset: 0, uptime, wall };
    FileBackend::on(machine, dir, FileSystem::default()).expect("a directory")
}
