//! A TTL is a guess of how long the work takes; without renewal the guess is a bug.

use std::time::Duration;

use leasehold::{LockError, LockRequest, Wait};
use tokio::time::{Instant, sleep};

use crate::redis_story::{Failure, tell};
use crate::stage::{KEY, Stage, TTL};

/// Time of Anna's work: twice as long as she thought.
const WORK: Duration = TTL.saturating_mul(2);

pub(crate) async fn wrong(stage: &Stage) -> Result<(), Failure> {
    stage.set_nx_px("anna", TTL).await?;
    let ends = Instant::now() + WORK;
    stage.set_nx_px_once_free("berta").await?;
    let both_work = Instant::now() < ends;
    stage.del().await?;
    tell(both_work, "wrong: Anna still works when her TTL is over, and Berta begins beside her")
}

/// The guard renews itself for as long as it lives.
pub(crate) async fn right(stage: &Stage) -> Result<(), Failure> {
    let anna = stage.anna.acquire(LockRequest::new(KEY).ttl(TTL)).await?;
    let wait = Wait::AtMost(WORK * 3 / 4);
    let berta = stage.berta.acquire(LockRequest::new(KEY).wait(wait));
    let (work, berta) = tokio::join!(anna.run(sleep(WORK)), berta);
    work?;
    anna.release().await?;
    tell(
        matches!(berta, Err(LockError::Timeout { .. })),
        "right: Anna's lease is renewed until her work is done; Berta, who waits less long, gives up",
    )
}
