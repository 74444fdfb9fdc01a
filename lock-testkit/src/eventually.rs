//! Waiting for a condition instead of for "long enough".

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Shortest interval of looks at a condition.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Longest interval of looks at a condition. A look may start a process.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

/// Returns once `holds` is true. It looks after 5 ms, and then after a tenth of the time so far.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::time::{Duration, Instant};
/// use lock_testkit::eventually;
///
/// let start = Instant::now();
/// eventually("20 ms are over", Duration::from_secs(5), async || {
///     start.elapsed() >= Duration::from_millis(20)
/// })
/// .await;
/// # }
/// ```
///
/// # Panics
/// If it is still false after `limit`; the text has `what`.
pub async fn eventually(what: &str, limit: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !holds().await {
        let waited = start.elapsed();
        assert!(waited < limit, "not within {limit:?}: {what}");
        sleep((waited / 10).clamp(POLL_INTERVAL, LONGEST_INTERVAL)).await;
    }
}
