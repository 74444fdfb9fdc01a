//! A fence that sees a token only with the write comes too late for what was read before.

use leasehold::redis::RedisFence;
use leasehold::{Fence, LockGuard};
use redis::cmd;

use crate::redis_story::{Failure, tell};
use crate::stage::{KEY, STOCK, Stage};

/// The token goes along with the write, as it is often explained. Each of the two writes is checked,
/// and each is accepted.
pub(crate) async fn wrong(stage: &Stage) -> Result<(), Failure> {
    let fence = stocked(stage, 10).await?;
    let anna = stage.paused_anna().await?;
    let anna_read = read(stage).await?;
    let berta = taken_over(stage, &anna).await?;
    let berta_read = read(stage).await?;
    // Anna goes on. The fence has not heard of Berta's token yet.
    fence.set(anna.token(), STOCK, anna_read - 1).await?;
    fence.set(berta.token(), STOCK, berta_read - 1).await?;
    berta.release().await?;
    tell(
        read(stage).await? == 9,
        "wrong: both writes carry a token and are accepted; two are sold of 10, and 9 are left",
    )
}

/// Advance, then read, then write: from Berta's first step on, no write of Anna's is accepted, so
/// what Berta reads stays true.
pub(crate) async fn right(stage: &Stage) -> Result<(), Failure> {
    let fence = stocked(stage, 10).await?;
    let anna = stage.paused_anna().await?;
    fence.advance(anna.token()).await?;
    let anna_read = read(stage).await?;
    let berta = taken_over(stage, &anna).await?;
    fence.advance(berta.token()).await?;
    let berta_read = read(stage).await?;
    let refused = fence.set(anna.token(), STOCK, anna_read - 1).await;
    fence.set(berta.token(), STOCK, berta_read - 1).await?;
    berta.release().await?;
    tell(
        refused.is_err_and(|error| error.is_stale()) && read(stage).await? == 9,
        "right: Anna's late write is refused; one is sold of 10, and 9 are left",
    )
}

async fn stocked(stage: &Stage, stock: u32) -> Result<RedisFence, Failure> {
    let () = cmd("SET").arg(STOCK).arg(stock).query_async(&mut stage.redis.clone()).await?;
    Ok(stage.lock.fence(STOCK))
}

async fn read(stage: &Stage) -> Result<u32, Failure> {
    Ok(cmd("GET").arg(STOCK).query_async(&mut stage.redis.clone()).await?)
}

/// Berta's turn, once Anna's lease is over.
async fn taken_over(stage: &Stage, anna: &LockGuard) -> Result<LockGuard, Failure> {
    anna.lost().await;
    Ok(stage.berta.acquire(KEY).await?)
}
