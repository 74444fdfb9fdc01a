//! The lock of doctors.

use std::time::Duration;

use super::DistributedLock;
use crate::model::{BackendError, Finding, LockRequest};

/// Name of the doctors' lock, behind the prefix of a client. The name never changes, so that doctors leave one counter.
pub const PROBE: &str = "leasehold-doctor";

/// TTL of the lock, in case the doctor cannot give it back.
const TTL: Duration = Duration::from_secs(1);

/// Acts as a client, with the doctor's own lock, so that the rights of a client are tried (C31).
///
/// # Errors
/// The error of the attempt or of the withdrawal.
pub async fn take_and_give_back(
    store: &dyn DistributedLock,
    prefix: &str,
) -> Result<(), BackendError> {
    let claim = LockRequest::new(format!("{prefix}{PROBE}")).ttl(TTL).claim();
    let backend = store.capabilities().backend;
    let claim = claim.map_err(|error| BackendError::refusal(backend, error.to_string()))?;
    let attempt = store.acquire(&claim, None).await;
    // The outcome of the attempt may be unknown.
    store.withdraw(&claim.name, &[claim.owner]).await.and(attempt.map(drop))
}

/// Reports the outcome of [`take_and_give_back`]: a failure is a risk with this remedy.
pub async fn probe(store: &dyn DistributedLock, prefix: &str, remedy: &str) -> Finding {
    const CHECK: &str = "rights";
    match take_and_give_back(store, prefix).await {
        Ok(()) => Finding::good(CHECK, "a lock was acquired and withdrawn"),
        Err(error) => Finding::risk(CHECK, format!("no lock can be acquired: {error}"), remedy),
    }
}
