//! A lease for the record of a run. Nobody renews it.
//!
//! ```text
//!   noted ──▶ granted ──▶ its key is on it: settled, since both end by the server's clock
//!               │
//!               └───────▶ its key is not on it, or nobody knows ──▶ revoked, by the call or the keeper: settled
//! ```

use std::sync::Arc;

use lock_core::{BackendError, OwnerId};

use crate::sessions::claims::Claims;
use crate::sessions::session::revoke;
use crate::wire::server::Server;

/// A lease that its client looks after until it is settled. If this is dropped before, the keeper ends it.
#[must_use = "a drop leaves the lease to the keeper"]
pub(crate) struct KeyLease {
    claims: Arc<Claims>,
    id: i64,
    key: Vec<u8>,
}

/// A lease that is not settled.
pub(crate) struct Unsettled {
    pub(crate) key: Vec<u8>,
    /// A request of this owner without an answer may still put the key on the lease.
    pub(crate) owner: Option<OwnerId>,
    pub(crate) stage: Stage,
}

/// The present care for a lease that is not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A call puts a key on it.
    InUse,
    /// A call or the keeper ends it.
    Ending,
    /// No [`KeyLease`] exists.
    Left,
}

impl KeyLease {
    /// Notes a lease before it is granted, or a lease whose key has left it. `owner` may have requests on the lease.
    pub(crate) fn note(claims: &Arc<Claims>, id: i64, key: &[u8], owner: Option<OwnerId>) -> Self {
        let stage = if owner.is_some() { Stage::InUse } else { Stage::Ending };
        claims.note_lease(id, Unsettled { key: key.to_vec(), owner, stage });
        Self::of(claims, id, key.to_vec())
    }

    pub(crate) fn of(claims: &Arc<Claims>, id: i64, key: Vec<u8>) -> Self {
        Self { claims: claims.clone(), id, key }
    }

    /// Notes that the lease has its key, or has ended.
    pub(crate) fn settled(self) {
        self.claims.forget_lease(self.id);
    }

    /// Ends the lease, unless its key is on it.
    pub(crate) async fn end(self, server: &Server) -> Result<(), BackendError> {
        let found = server.get(&*self.key, None).await?;
        if found.kvs().first().is_none_or(|found| found.lease() != self.id) {
            revoke(server, self.id).await?;
        }
        self.settled();
        Ok(())
    }
}

impl Drop for KeyLease {
    fn drop(&mut self) {
        self.claims.leave_lease(self.id);
    }
}
