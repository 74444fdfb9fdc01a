//! The right to ask again for a lock that one holds already.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use tokio::sync::Notify;

/// The right to ask again for a held lock: requests with one `Reentrance`, and its clones, share one hold (C43).
///
/// A task that asks twice for a lock waits for itself. If a function that takes the lock calls another one that takes
/// it too, pass a `Reentrance` from the first to the second. The client never finds one by thread or task: everybody
/// who has it may share the hold.
///
/// - The guards of one hold have the same token. The drop of the last one releases the lock.
/// - The hold has the longest TTL of the requests. Its label, its bound ([`max_hold`]) and its place in the
///   queue are those of the request that acquired it.
/// - Requests of one kind share a hold of that kind. A shared request also shares an exclusive hold, and a request for
///   permits a hold of more permits, with all its slots. A reader that asks for an exclusive hold **waits for itself**.
/// - A loss ends the hold for all of its guards. The next request acquires the lock anew.
/// - It works within one client. Use [`detach`] and [`attach`] to hand a lease to another process.
///
/// [`max_hold`]: crate::LockRequest::max_hold
/// [`detach`]: crate::LockGuard::detach
/// [`attach`]: crate::LockClient::attach
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
/// use lock_core::{LockClient, LockRequest, MemoryBackend, Reentrance};
///
/// let locks = LockClient::new(MemoryBackend::new());
/// let me = Reentrance::new();
/// let request = || LockRequest::new("account:7").reentrant(&me);
///
/// let outer = locks.acquire(request()).await?;
/// let inner = locks.acquire(request()).await?;
/// assert_eq!(inner.token(), outer.token());
/// inner.release().await?;
/// assert!(outer.is_held());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Reentrance {
    /// Notifies the waiting requests of each new hold that they may share. Its address is the identity.
    added: Arc<Notify>,
}

impl Reentrance {
    /// Returns a new right, shared with no other.
    pub fn new() -> Self {
        Self { added: Arc::default() }
    }

    pub(crate) fn added(&self) -> &Notify {
        &self.added
    }
}

impl PartialEq for Reentrance {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.added, &other.added)
    }
}

impl Eq for Reentrance {}

impl Hash for Reentrance {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.added).hash(state);
    }
}

impl Default for Reentrance {
    fn default() -> Self {
        Self::new()
    }
}
