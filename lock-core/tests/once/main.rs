//! C41, C42: a job that one of several clients runs, in virtual time.

#![allow(clippy::expect_used, clippy::panic)]

mod records;
mod spans;

use std::sync::Arc;
use std::time::Duration;

use lock_core::{LockClient, MemoryBackend};
use lock_testkit::Faulty;
use tokio::time::{Instant, sleep};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// Time for which most runs keep others out.
pub(crate) const SPAN: Duration = Duration::from_secs(600);

pub(crate) fn faulty_client() -> (LockClient, Faulty, LockClient) {
    let store = MemoryBackend::new();
    let faulty = Faulty::new(Arc::new(store.clone()));
    (LockClient::new(faulty.clone()), faulty, LockClient::new(store))
}

/// Returns the time until another client may run the job.
pub(crate) async fn until_free(other: &LockClient) -> Duration {
    let asked = Instant::now();
    loop {
        if let Some(guard) = other.try_acquire("job").await.expect("an answer") {
            guard.release().await.expect("held to the end");
            return asked.elapsed();
        }
        sleep(SECOND).await;
    }
}
