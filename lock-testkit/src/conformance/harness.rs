//! Gives the suite the backend under test.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use lock_core::{DistributedLock, LockName};

/// Gives the suite the backend under test, and the bounds of time.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Connects to the store anew, as another host would.
    async fn connect(&self) -> Arc<dyn DistributedLock>;

    /// Ends the hold of `name` behind everyone's back, as an operator would.
    async fn evict(&self, name: &LockName);

    /// The shortest TTL that the backend keeps to, and that a busy test machine does not lose by
    /// chance. A renewal has a sixth of it, or a third of what a slow grant left: so it is at least
    /// thirty times what a call takes.
    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    /// Returns true if the store, as it is set up here, tells of changes (C44) where its backend listens for them.
    fn tells_changes(&self) -> bool {
        true
    }

    /// Returns the length in bytes of the longest name that the backend takes: fewer where each name is given a prefix.
    fn longest_name(&self) -> usize {
        LockName::MAX_BYTES
    }

    /// The request time-out of the clients under test: at least eight times what a call takes, since a
    /// case may delay an answer by a quarter of it, and an attempt is given up after half of it. A store
    /// that waits for a slow disk may need more than the default of 2 s.
    fn request_timeout(&self) -> Duration {
        Duration::from_secs(2)
    }

    /// Returns the time that a loaded machine, or a slow store, may add to a bound of the contract. The default is the
    /// request time-out.
    fn slack(&self) -> Duration {
        self.request_timeout()
    }

    /// Returns for how long an answer is delayed, and a call is watched while it is to wait: a quarter of the request
    /// time-out.
    fn moment(&self) -> Duration {
        self.request_timeout() / 4
    }

    /// A bound for what has none of its own: far more than anything takes. The default is thirty times
    /// the request time-out.
    fn limit(&self) -> Duration {
        self.request_timeout() * 30
    }
}
