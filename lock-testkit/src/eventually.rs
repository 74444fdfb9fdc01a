//! Waiting for a condition instead of for "long enough".

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Interval of looks at a condition.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns once `holds` is true.
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
    let deadline = Instant::now() + limit;
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        sleep(POLL_INTERVAL).await;
    }
}
