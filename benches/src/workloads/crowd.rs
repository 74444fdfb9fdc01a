//! A crowd of clients that want one lock at once. All must get in, and none gives up.

use std::time::{Duration, Instant};

use leasehold::{LockClient, LockError, LockRequest};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::waiting::connect;
use crate::client::{Result, TTL, fresh_name};
use crate::contender::OURS;
use crate::effort::Effort;
use crate::figures::{ALL_IN_AFTER, Case, GOT_IN};
use crate::round::Round;

pub(crate) const NAME: &str = "crowd";

/// Wait of each client.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the numbers of clients.
pub(crate) fn crowds(effort: Effort) -> [usize; 2] {
    [1_000, 5_000].map(|clients| clients / effort.fewer_waiters)
}

pub(crate) async fn run(round: &mut Round<'_>) -> Result<()> {
    for clients in crowds(round.effort) {
        of(round, clients).await?;
    }
    Ok(())
}

async fn of(round: &mut Round<'_>, count: usize) -> Result<()> {
    let (url, name) = (round.store.url(), fresh_name("crowd"));
    let holder = leasehold::connect(&url).await?;
    let held = holder.acquire(LockRequest::new(&*name).ttl(TTL)).await?;
    let mut crowd = JoinSet::new();
    for client in connect(&url, count).await? {
        crowd.spawn(gets_in(client, name.clone()));
    }
    timeout(PATIENCE, until_all_wait(&holder, &name, count)).await??;
    let opened = Instant::now();
    // The holder still holds it: a crowd that starves its renewals is an error here.
    held.release().await?;
    let mut got_in = 0;
    while let Some(ended) = crowd.join_next().await {
        got_in += usize::from(ended??);
    }
    let case = Case { name: NAME, workers: count };
    round.note(case, OURS, GOT_IN, got_in as f64 / count as f64);
    round.note(case, OURS, ALL_IN_AFTER, opened.elapsed().as_secs_f64());
    holder.shutdown().await;
    Ok(())
}

async fn gets_in(client: LockClient, name: String) -> Result<bool> {
    match client.acquire(LockRequest::new(name).ttl(TTL).wait(PATIENCE)).await {
        Ok(guard) => guard.release().await?,
        Err(LockError::Timeout { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}

/// Repeats a look that gets no turn among so many clients.
async fn until_all_wait(holder: &LockClient, name: &str, count: usize) -> Result<()> {
    loop {
        match holder.admin().inspect(name).await {
            Ok(seen) if seen.waiters == Some(count as u64) => return Ok(()),
            Err(error) if !error.is_transient() => return Err(error.into()),
            Ok(_) | Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}
