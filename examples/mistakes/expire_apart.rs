//! Two commands where one is needed: a process that dies between them locks everybody out.

use redis::cmd;
use tokio::time::sleep;

use crate::redis_story::{Failure, tell};
use crate::stage::{KEY, Stage, TTL};

pub(crate) async fn wrong(stage: &Stage) -> Result<(), Failure> {
    let mut redis = stage.redis.clone();
    let _: bool = cmd("SETNX").arg(KEY).arg("anna").query_async(&mut redis).await?;
    // Anna's process dies here, before the EXPIRE that was to follow.
    sleep(TTL * 2).await;
    let berta: bool = cmd("SETNX").arg(KEY).arg("berta").query_async(&mut redis).await?;
    let ttl_left: i64 = cmd("PTTL").arg(KEY).query_async(&mut redis).await?;
    stage.del().await?;
    tell(
        !berta && ttl_left == -1,
        "wrong: Anna dies between SETNX and EXPIRE, and the lock has no end: nobody gets in again",
    )
}

/// The lock and its end are one command, with Leasehold as with `SET … NX PX`.
pub(crate) async fn right(stage: &Stage) -> Result<(), Failure> {
    // As good as dead: nobody renews what is detached, and nobody gives it back.
    let dead = stage.paused_anna().await?.detach()?;
    let berta = stage.berta.acquire(KEY).await?;
    let later = berta.token() > dead.token();
    berta.release().await?;
    tell(later, "right: Anna dies, her lease ends with its TTL, and Berta gets in")
}
