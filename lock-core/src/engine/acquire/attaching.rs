//! Attaches a lease: holds it again, after the server has confirmed it.

use tokio::time::Instant;

use super::shared::{Acquired, Shared};
use crate::backend::Extension;
use crate::engine::give_back::OwnedClaim;
use crate::model::{Lease, LockError, LostReason, Ttl, Wait};

impl Shared {
    /// Proves to this client that a lease is still held, and holds it from then on.
    pub(crate) async fn attach(&self, mut lease: Lease) -> Result<Acquired, LockError> {
        self.admit(&lease.name)?;
        let (began, limit) = (Instant::now(), self.store.options.request_timeout);
        self.driven(&lease.name, Wait::Never).await?;
        self.store.options.validity(lease.asked)?;
        let name = lease.name.clone();
        let lost = |reason| LockError::Lost { name: name.clone(), reason, source: None };
        let (bound, asked) = (lease.bound.take(), self.store.now());
        // C13: no attachment makes the hold outlast its bound.
        let ttl = bound.as_ref().map_or(Some(lease.asked), |bound| bound.limit(lease.asked, asked));
        let Some(ttl) = ttl else {
            return Err(lost(LostReason::MaxHold));
        };
        // S5: an earlier guard of the lease gives it back now, or never.
        let _attaching = self.renewer.attaching(&lease)?;
        if self.janitor.has(&name, lease.owner) {
            return Err(lost(LostReason::Released));
        }
        // C17: the wait for the runtime is included.
        let left = limit.saturating_sub(began.elapsed());
        let over = match self.store.extend(&lease, ttl, left).await? {
            Extension::Extended(granted) => {
                let deadline = self.store.options.drift.deadline(asked, ttl, granted);
                (lease.granted, lease.deadline) = (Ttl::kept(granted), deadline);
                self.store.has_expired(&lease).then_some(LostReason::Expired)
            }
            Extension::Lost => Some(LostReason::Evicted),
        };
        if let Some(reason) = over {
            return Err(lost(reason));
        }
        let hold = self.hold(lease, None)?;
        bound.into_iter().for_each(|bound| hold.bound_by(*bound));
        self.renewer.attached(&hold);
        let claim = OwnedClaim::of(&hold.lease(), self.janitor.clone());
        Ok(Acquired { hold, claim, succession: None })
    }
}
