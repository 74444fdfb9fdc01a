//! C43: requests that share one hold.

use std::sync::Arc;

use crate::engine::{Acquired, Acquisition, JointHolder, Shared};
use crate::guard::LockGuard;
use crate::model::{Kind, LockError, LockRequest, Reentrance};

/// Acquires a lock for `me`, or shares the hold that `me` has of it.
///
/// ```text
///   asks, as everybody ──── granted ───▶ shares its hold with the others that ask
///                     │
///                     └── another of `me` is granted first ───▶ leaves the queue, and shares that hold
/// ```
///
/// Requests at the same time wait separately, so that none depends on another that may be cancelled.
///
/// # Cancel safety
/// If the future is dropped, its own acquisition is given back, and a hold of others goes on.
pub(crate) async fn acquire(
    shared: &Arc<Shared>,
    me: &Reentrance,
    request: &LockRequest,
) -> Result<LockGuard, LockError> {
    let claim = request.claim()?;
    shared.store.refuse_in_fork("acquire", Some(&claim.name))?;
    let (ttl, kind) = (claim.ttl, claim.kind);
    let by = JointHolder { me: me.clone(), name: claim.name.clone() };
    let acquire = async {
        let mut acquisition = Acquisition::new(shared.clone(), claim)?;
        let granted = acquisition.run(request).await?;
        Ok::<_, LockError>(acquisition.acquired(granted))
    };
    let guard = tokio::select! {
        biased;
        guard = shared.joint_holds.found(&by, || held(shared, &by, kind)) => guard,
        acquired = acquire => share(shared, &by, kind, acquired?),
    };
    guard.ask_for(ttl);
    Ok(guard)
}

/// Returns a guard of the shared hold, if there is one.
fn held(shared: &Arc<Shared>, by: &JointHolder, kind: Kind) -> Option<LockGuard> {
    let guard = |joint| LockGuard::joint(shared.clone(), by.clone(), joint);
    // R1: each part gets a guard, since it may be the last of its hold by now.
    let guards: Vec<_> = shared.joint_holds.find(by, kind).into_iter().map(guard).collect();
    // A loss is final: a lost lock is acquired anew.
    guards.into_iter().find(LockGuard::is_held)
}

/// Shares an acquired hold with later requests.
fn share(shared: &Arc<Shared>, by: &JointHolder, kind: Kind, acquired: Acquired) -> LockGuard {
    let (joint, second) = shared.joint_holds.add(by, kind, acquired);
    // The drop releases this hold if another request of `me` was granted before.
    drop(second.map(|second| LockGuard::new(shared.clone(), second)));
    LockGuard::joint(shared.clone(), by.clone(), joint)
}
