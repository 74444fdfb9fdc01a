//! The lock of doctors.

use std::time::Duration;

use super::{Attempt, DistributedLock};
use crate::model::{BackendError, Finding, LockRequest};

/// Name of the doctors' lock, behind the prefix of a client. The name never changes, so that doctors leave one counter.
pub const PROBE: &str = "leasehold-doctor";

/// TTL of the lock, in case the doctor cannot give it back.
const TTL: Duration = Duration::from_secs(1);

/// Acts as a client, with the doctor's own lock, so that the rights of a client are tried (C31). Returns the outcome of the
/// attempt, which is "busy" while another doctor is at work.
///
/// # Errors
/// The error of the attempt or of the withdrawal.
pub async fn take_and_give_back(
    store: &dyn DistributedLock,
    prefix: &str,
) -> Result<Attempt, BackendError> {
    let claim = LockRequest::new(format!("{prefix}{PROBE}")).ttl(TTL).claim();
    let backend = store.capabilities().backend;
    let claim = claim.map_err(|error| BackendError::refusal(backend, error.to_string()))?;
    let attempt = store.acquire(&claim, None).await;
    // The outcome of the attempt may be unknown.
    store.withdraw(&claim.name, &[claim.owner]).await.and(attempt)
}

/// Reports the outcome of [`take_and_give_back`]: a failure is a risk with this remedy. A busy lock shows no right.
pub async fn probe(store: &dyn DistributedLock, prefix: &str, remedy: &str) -> Finding {
    const CHECK: &str = "rights";
    match take_and_give_back(store, prefix).await {
        Ok(Attempt::Granted(_)) => Finding::good(CHECK, "a lock was acquired and withdrawn"),
        Ok(Attempt::Busy(seen)) => Finding::unknown(
            CHECK,
            format!("lock \"{prefix}{PROBE}\" of the doctors was not acquired: {seen}"),
            "ask again: another doctor may be at work",
        ),
        Err(error) => Finding::risk(CHECK, format!("no lock can be acquired: {error}"), remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryBackend;
    use crate::model::Health;

    #[tokio::test]
    async fn c31_a_lock_that_is_busy_shows_no_right() {
        let store = MemoryBackend::new();
        assert_eq!(probe(&store, "p:", "").await.health, Health::Good);
        let claim = LockRequest::new(format!("p:{PROBE}")).claim().expect("a good claim");
        store.acquire(&claim, None).await.expect("an answer");
        let busy = probe(&store, "p:", "").await;
        assert!(busy.health == Health::Unknown && busy.seen.contains(PROBE), "{busy}");
        store.release(&claim.name, claim.owner).await.expect("an answer");
        assert_eq!(probe(&store, "p:", "").await.health, Health::Good);
    }
}
