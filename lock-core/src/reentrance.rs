//! C43: requests that share one hold.

use std::sync::Arc;

use crate::engine::{Acquisition, Shared};
use crate::guard::LockGuard;
use crate::model::{LockError, LockRequest, Reentrance};

/// Acquires a lock for `me`, or shares the hold that `me` has of it.
///
/// ```text
///   asks, as everybody ──── granted ───▶ shares its hold with the others that ask
///                     │
///                     └── another of `me` is granted first ───▶ leaves the queue, and shares that hold
/// ```
///
/// Each of those that ask at once waits by itself, so none depends on another that may be cancelled.
///
/// # Cancel safety
/// If the future is dropped, what it acquired is given back, and a hold of others goes on.
pub(crate) async fn acquire(
    shared: &Arc<Shared>,
    me: &Reentrance,
    request: &LockRequest,
) -> Result<LockGuard, LockError> {
    let claim = request.claim()?;
    let (name, ttl) = (claim.name.clone(), claim.ttl);
    let held = || {
        let joint = shared.joint_holds.find(me, &name)?;
        // A loss is final: what is lost is acquired anew.
        Some(LockGuard::joint(shared.clone(), me.clone(), joint)).filter(LockGuard::is_held)
    };
    let acquire = async { Acquisition::new(shared.clone(), claim)?.run(request).await };
    tokio::select! {
        biased;
        guard = shared.joint_holds.found(held) => {
            guard.ask_for(ttl);
            Ok(guard)
        }
        acquired = acquire => {
            let joint = shared.joint_holds.add(me, name.clone(), acquired?);
            Ok(LockGuard::joint(shared.clone(), me.clone(), joint))
        }
    }
}
