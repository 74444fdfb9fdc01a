//! How a client treats its backend.

use std::sync::Arc;
use std::time::Duration;

use crate::model::{Clock, Drift, SystemClock};

#[cfg(feature = "metrics")]
use crate::model::LockName;

/// How a client treats its backend. The defaults suit most.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// How long a request may take, retries included; default 2 s. Waiting for a lock that others
    /// hold is not part of it. What is outside 10 ms to 1 h is brought into that range.
    pub request_timeout: Duration,
    /// What is taken off each TTL for the difference between clocks.
    pub drift: Drift,
    /// Where the holder reads the time; another one is for tests.
    pub clock: Arc<dyn Clock>,
    /// What metrics show of a lock's name, as the label `group`; default "all". The names of a
    /// service may be without number, and metrics bear only a few values of a label.
    #[cfg(feature = "metrics")]
    pub metric_group: fn(&LockName) -> &'static str,
}

impl ClientOptions {
    /// How long a request may take by default.
    pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            request_timeout: Self::REQUEST_TIMEOUT,
            drift: Drift::default(),
            clock: Arc::new(SystemClock),
            #[cfg(feature = "metrics")]
            metric_group: |_| "all",
        }
    }
}
