//! A release that does not ask whose the lock is frees somebody else's.

use leasehold::LockRequest;

use crate::redis_story::{Failure, tell};
use crate::stage::{KEY, LONG, Stage, TTL};

pub(crate) async fn wrong(stage: &Stage) -> Result<(), Failure> {
    stage.set_nx_px("anna", TTL).await?;
    // Anna's work takes longer than she thought: her lease ends, and Berta begins.
    stage.set_nx_px_once_free("berta").await?;
    // Anna is done, and deletes "her" lock, while Berta works.
    let deleted = stage.del().await? == 1;
    let carla = stage.set_nx_px("carla", LONG).await?;
    stage.del().await?;
    tell(
        deleted && carla,
        "wrong: Anna, who is late, deletes the lock of Berta, and Carla joins Berta at the till",
    )
}

/// The owner is compared in the same step that deletes, and each acquisition is an owner of its own.
pub(crate) async fn right(stage: &Stage) -> Result<(), Failure> {
    let anna = stage.paused_anna().await?;
    anna.lost().await;
    let berta = stage.berta.acquire(LockRequest::new(KEY)).await?;
    let released = anna.release().await;
    let carla = stage.anna.try_acquire(KEY).await?;
    let kept = released.is_err() && carla.is_none() && berta.is_held();
    berta.release().await?;
    tell(
        kept,
        "right: Anna is told that she does not hold it any more; Berta keeps it, Carla waits",
    )
}
