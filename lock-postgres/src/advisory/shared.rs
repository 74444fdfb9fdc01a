//! What the claims of a client share.

use tokio::sync::Semaphore;

use super::holds::Holds;
use super::spares::Spares;

/// What the claims of a client share.
pub(super) struct Shared {
    pub(super) holds: Holds,
    /// Sessions that hold nothing.
    pub(super) spares: Spares,
    /// Attempts, some of which may be under way at a time.
    pub(super) attempts: Semaphore,
}
