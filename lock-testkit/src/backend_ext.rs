//! Shorthands of tests for the verbs of a backend.

use async_trait::async_trait;

use lock_core::backend::{RecordsRuns, ReservesTokens};
use lock_core::{DistributedLock, Lease, LockAdmin, LockClient, LockError, LockRequest};

/// Extensions of a backend that a test requires.
///
/// # Panics
/// Each method panics if the backend cannot do it.
#[allow(clippy::expect_used)]
pub trait Expect: DistributedLock {
    /// Returns the interface for operators.
    fn expect_admin(&self) -> &dyn LockAdmin {
        self.admin().expect("a backend that shows its locks")
    }

    /// Returns the interface that reserves tokens.
    fn expect_token_ranges(&self) -> &dyn ReservesTokens {
        self.token_ranges().expect("a backend that reserves tokens")
    }

    /// Returns the interface that records runs.
    fn expect_run_records(&self) -> &dyn RecordsRuns {
        self.run_records().expect("a backend that records runs")
    }
}

impl<L: DistributedLock + ?Sized> Expect for L {}

/// Acquires leases that no guard renews.
#[async_trait]
pub trait LeaseExt: DistributedLock + Clone {
    /// Acquires a lock with a new client, and [detaches](lock_core::LockGuard::detach) the lease.
    ///
    /// # Errors
    /// As [`LockClient::acquire`].
    ///
    /// # Cancel safety
    /// As [`LockClient::acquire`].
    async fn acquire_lease(&self, request: &LockRequest) -> Result<Lease, LockError> {
        LockClient::new(self.clone()).acquire(request.clone()).await?.detach()
    }
}

impl<L: DistributedLock + Clone> LeaseExt for L {}
