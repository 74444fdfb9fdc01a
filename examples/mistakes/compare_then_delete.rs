//! A release that asks whose the lock is, and then deletes it, acts on an answer that is no longer true.

use redis::{Script, cmd};

use crate::redis_story::{Failure, tell};
use crate::stage::{KEY, LONG, Stage, TTL};

/// Compares and deletes while nobody else can do anything: Redis runs a script as one command.
const COMPARE_AND_DELETE: &str = "
    if redis.call('GET', KEYS[1]) == ARGV[1] then
        return redis.call('DEL', KEYS[1])
    end
    return 0
";

/// GET, compare, DEL. The comparison is right, and it is over when the DEL comes.
pub(crate) async fn wrong(stage: &Stage) -> Result<(), Failure> {
    stage.set_nx_px("anna", TTL).await?;
    let is_annas = owner(stage).await?.as_deref() == Some("anna");
    // Anna's process is paused here, until her lease is over and Berta has the lock.
    stage.set_nx_px_once_free("berta").await?;
    let deleted = stage.del().await? == 1;
    let carla = stage.set_nx_px("carla", LONG).await?;
    stage.del().await?;
    tell(
        is_annas && deleted && carla,
        "wrong: Anna sees her own name, is paused, and deletes the lock of Berta; Carla joins Berta",
    )
}

/// The same pause, and one script in place of the two commands. Leasehold releases by such a script, and
/// so may any client that shares a lock with it.
pub(crate) async fn right(stage: &Stage) -> Result<(), Failure> {
    stage.set_nx_px("anna", LONG).await?;
    let in_time = compare_and_delete(stage, "anna").await?;

    stage.set_nx_px("anna", TTL).await?;
    let is_annas = owner(stage).await?.as_deref() == Some("anna");
    // Paused again. This time Berta takes the lock by Leasehold.
    let berta = stage.berta.acquire(KEY).await?;
    let late = compare_and_delete(stage, "anna").await?;
    let carla = stage.set_nx_px("carla", LONG).await?;
    let kept = !carla && berta.release().await.is_ok();
    tell(
        in_time == 1 && is_annas && late == 0 && kept,
        "right: one script compares and deletes; it frees Anna's own lock, and leaves Berta's alone",
    )
}

async fn owner(stage: &Stage) -> Result<Option<String>, Failure> {
    Ok(cmd("GET").arg(KEY).query_async(&mut stage.redis.clone()).await?)
}

/// Returns the number of locks freed: one, or none because it is somebody else's.
async fn compare_and_delete(stage: &Stage, who: &str) -> Result<u32, Failure> {
    let script = Script::new(COMPARE_AND_DELETE);
    Ok(script.key(KEY).arg(who).invoke_async(&mut stage.redis.clone()).await?)
}
