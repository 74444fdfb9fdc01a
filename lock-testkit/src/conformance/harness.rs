//! Gives the suite the backend under test.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use lock_core::{DistributedLock, LockName};

/// Gives the suite the backend under test, and time limits.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Makes a new connection to the store, as another host would.
    async fn connect(&self) -> Arc<dyn DistributedLock>;

    /// Ends the hold of `name` without the holder, as an operator would.
    async fn evict(&self, name: &LockName);

    /// Returns the shortest TTL that the backend keeps and that a busy test machine does not lose by chance. A
    /// renewal has a sixth of it, or a third of the rest after a slow grant. So it must be at least thirty times the
    /// duration of a call.
    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    /// Returns true if the store, as it is set up here, signals changes (C44) and its backend listens for them.
    fn tells_changes(&self) -> bool {
        true
    }

    /// Returns the length in bytes of the longest name that the backend accepts: less if each name gets a prefix.
    fn longest_name(&self) -> usize {
        LockName::MAX_BYTES
    }

    /// Returns the request time-out of the clients under test: at least eight times the duration of a call. A case
    /// may delay an answer by a quarter of it, and an attempt is given up after half of it. A store on a slow disk
    /// may need more than the default of 2 s.
    fn request_timeout(&self) -> Duration {
        Duration::from_secs(2)
    }

    /// Returns the time that a loaded machine, or a slow store, may add to a bound of the contract. The default is the
    /// request time-out.
    fn slack(&self) -> Duration {
        self.request_timeout()
    }

    /// Returns the delay of a late answer, and the time for which a waiting call is observed: a quarter of the
    /// request time-out.
    fn moment(&self) -> Duration {
        self.request_timeout() / 4
    }

    /// Returns the time limit of everything without its own: far more than anything takes. The default is thirty
    /// times the request time-out.
    fn limit(&self) -> Duration {
        self.request_timeout() * 30
    }

    /// Returns a TTL that outlasts each wait: a hold that is gone was given back, and did not expire. The default is
    /// twice the time limit.
    fn long_ttl(&self) -> Duration {
        self.limit() * 2
    }
}
