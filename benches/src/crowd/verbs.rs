//! The calls of an application and of an operator.

use std::time::Duration;

use leasehold::admin::Admin;
use leasehold::{LockClient, LockError, LockRequest, Wait};

use crate::client::Result;

/// The lock for which the crowd waits.
pub(super) const CROWDED: &str = "crowded";

/// Locks of one listing.
const PAGE: usize = 100;

#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    /// Acquires a free lock, extends the hold and releases it.
    Cycle,
    /// Asks for the crowded lock once.
    Try,
    /// Waits for the crowded lock, and gives up.
    Wait,
    /// Runs a job once, and records the run.
    Once,
    Inspect,
    List,
    /// Lists the records of a job.
    Runs,
    Doctor,
    /// Examines the crowded lock.
    Examine,
    /// Ends the hold of the crowded lock.
    Evict,
}

impl Verb {
    pub(super) const ALL: [Self; 10] = [
        Self::Cycle,
        Self::Try,
        Self::Wait,
        Self::Once,
        Self::Inspect,
        Self::List,
        Self::Runs,
        Self::Doctor,
        Self::Examine,
        Self::Evict,
    ];

    pub(super) async fn run(self, locks: &LockClient) -> Result<()> {
        let admin = locks.admin();
        match self {
            Self::Cycle => cycle(locks).await?,
            Self::Try => drop(locks.try_acquire(CROWDED).await?),
            Self::Wait => wait(locks).await?,
            Self::Once => {
                let job =
                    locks.once("job/1").occurrence(format!("{:?}", std::time::Instant::now()));
                let _ran = job.run(async |_| ()).await?;
            }
            Self::Inspect => drop(admin.inspect(CROWDED).await?),
            Self::List => list(&admin).await?,
            Self::Runs => drop(admin.runs("job/1").await?),
            Self::Doctor => drop(admin.doctor().await?),
            Self::Examine => drop(admin.examine(CROWDED).await?),
            Self::Evict => drop(admin.evict(CROWDED).await?),
        }
        Ok(())
    }

    pub(super) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

async fn cycle(locks: &LockClient) -> std::result::Result<(), LockError> {
    let guard = locks.acquire("crowd/7").await?;
    guard.extend(Duration::from_secs(60)).await?;
    guard.release().await
}

/// A listing that was stopped in time has an answer: the locks that it has found.
async fn list(admin: &Admin) -> Result<()> {
    match admin.list("", PAGE).await {
        Err(error) if !error.to_string().contains("the listing stopped after") => Err(error.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// A time-out is the expected end, unless the crowd has not come yet.
async fn wait(locks: &LockClient) -> std::result::Result<(), LockError> {
    let request = LockRequest::new(CROWDED).wait(Wait::AtMost(Duration::from_millis(300)));
    match locks.acquire(request).await {
        Ok(guard) => guard.release().await,
        Err(LockError::Timeout { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
