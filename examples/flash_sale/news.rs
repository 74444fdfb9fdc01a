//! Reports of workers, one line of JSON each on their standard output.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// One line from a worker.
///
/// Times are spans since the Unix epoch. All processes of a machine share that clock.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum News {
    /// The worker waits for the start.
    Ready,
    /// A buyer has an item, and the stock was written as `left`.
    Sold { at: Duration, left: u32 },
    /// A buyer was told that there is nothing left.
    SoldOut,
    /// The worker read the stock, and will write one less after a slow payment.
    AboutToWrite { token: u64, read: u32 },
    /// The shop refused the write: it has seen a newer token.
    Refused { token: u64, seen: u64 },
    /// The worker has released the lock.
    Held(Hold),
}

/// One hold of the lock, for as long as its worker believed in it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Hold {
    pub(crate) worker: u32,
    pub(crate) token: u64,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    /// Answer to the release: true if the worker still held the lock at the end.
    pub(crate) kept: bool,
}

/// Returns the time on the clock that all processes share.
pub(crate) fn now() -> Duration {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_epoch.unwrap_or_default()
}
