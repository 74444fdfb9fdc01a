//! Callers of one client that wait briefly, beside rivals that hold the lock for long.

use std::time::Duration;

use leasehold::{LockClient, LockError, LockRequest, Wait};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use crate::client::{Result, TTL, fresh_name};
use crate::contender::OURS;
use crate::effort::Effort;
use crate::figures::{Case, GOT_IN};
use crate::round::Round;

pub(crate) const NAME: &str = "short waits";

/// Number of rivals, each a separate client.
const RIVALS: usize = 10;

/// Time for which a rival holds the lock.
const RIVAL_HOLDS: Duration = Duration::from_millis(100);

/// Time between two arrivals.
const APART: Duration = Duration::from_millis(100);

const WAIT: Duration = Duration::from_millis(1500);

/// Time for which a caller that got in holds the lock.
const HOLD: Duration = Duration::from_millis(1);

/// Number of arrivals.
pub(crate) fn arrivals(effort: Effort) -> usize {
    200 / effort.fewer_waiters
}

pub(crate) async fn run(round: &mut Round<'_>) -> Result<()> {
    let (url, name, arrivals) = (round.store.url(), fresh_name("short"), arrivals(round.effort));
    let mut rivals = JoinSet::new();
    for _ in 0..RIVALS {
        rivals.spawn(rival(leasehold::connect(&url).await?, name.clone()));
    }
    let (client, mut waiting) = (leasehold::connect(&url).await?, JoinSet::new());
    let mut next = interval(APART);
    for _ in 0..arrivals {
        next.tick().await;
        waiting.spawn(gets_in(client.clone(), name.clone()));
    }
    let mut got_in = 0;
    while let Some(ended) = waiting.join_next().await {
        got_in += usize::from(ended??);
    }
    rivals.shutdown().await;
    client.shutdown().await;
    let case = Case { name: NAME, workers: arrivals };
    round.note(case, OURS, GOT_IN, got_in as f64 / arrivals as f64);
    Ok(())
}

/// Acquires the lock for long, again and again.
async fn rival(client: LockClient, name: String) -> Result<()> {
    loop {
        let guard = client.acquire(LockRequest::new(&*name).ttl(TTL).wait(Wait::Forever)).await?;
        sleep(RIVAL_HOLDS).await;
        guard.release().await?;
    }
}

async fn gets_in(client: LockClient, name: String) -> Result<bool> {
    match client.acquire(LockRequest::new(&*name).ttl(TTL).wait(WAIT)).await {
        Ok(guard) => {
            sleep(HOLD).await;
            guard.release().await?;
            Ok(true)
        }
        Err(LockError::Timeout { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
