//! Callers that give up again and again, on a lock that another client, the victim, uses.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::{LockClient, LockError, LockRequest, Wait};
use tokio::task::JoinSet;

use crate::backend::Backend;
use crate::client::{Result, TTL, fresh_name};
use crate::contender::OURS;
use crate::figures::{Case, FREE_AFTER, KEPT};
use crate::round::Round;

/// A storm: the number of callers of one client, and the request of each turn.
pub(crate) struct Storm {
    pub(crate) case: Case,
    request: fn(LockRequest, usize) -> LockRequest,
}

pub(crate) const STORMS: [Storm; 5] = [
    Storm::new("storm of 2 ms", 50, |request, _| request.wait(MS * 2)),
    Storm::new("storm of 20 ms", 50, |request, _| request.wait(MS * 20)),
    Storm::new("storm of 0.5 ms", 200, |request, _| request.wait(MS / 2)),
    Storm::new("storm of all sorts", 50, of_all_sorts),
    Storm::new("storm of tries", 50, |request, _| request.wait(Wait::Never)),
];

/// A baseline without a storm: the victim's share in a fair queue with one other client.
const RIVAL: Storm = Storm::new("a patient rival", 1, |request, _| request.wait(PATIENCE));

/// Names of the storms.
pub(crate) const NAMES: &[&str] = &[
    RIVAL.case.name, STORMS[0].case.name, STORMS[1].case.name, STORMS[2].case.name,
    STORMS[3].case.name, STORMS[4].case.name,
];

/// Backends of this workload. One topology is enough, and memory only has tasks of one process.
pub(crate) const BACKENDS: [Backend; 4] =
    [Backend::Redis, Backend::Etcd, Backend::Postgres, Backend::File];

const MS: Duration = Duration::from_millis(1);

/// Longest time until the lock is free after a storm; otherwise the round fails.
const PATIENCE: Duration = Duration::from_secs(30);

impl Storm {
    const fn new(
        name: &'static str,
        callers: usize,
        request: fn(LockRequest, usize) -> LockRequest,
    ) -> Self {
        Self { case: Case { name, workers: callers }, request }
    }
}

/// Varies TTL, label and kind from turn to turn.
fn of_all_sorts(request: LockRequest, turn: usize) -> LockRequest {
    let ttl = Duration::from_secs(turn as u64 % 7 + 4);
    let request = request.ttl(ttl).label(format!("caller-{}", turn % 5)).wait(MS * 2);
    match turn % 3 {
        0 => request,
        1 => request.shared(),
        _ => request.permits(1, 3),
    }
}

pub(crate) async fn run(round: &mut Round<'_>) -> Result<()> {
    let url = round.store.url();
    let (victim, callers) = (leasehold::connect(&url).await?, leasehold::connect(&url).await?);
    for storm in std::iter::once(&RIVAL).chain(&STORMS) {
        let name = fresh_name("storm");
        let alone = cycles(&victim, &name, round.effort.span).await?;
        let mut raging = begin(&callers, storm, &name);
        let kept = cycles(&victim, &name, round.effort.span).await?;
        // All callers give up at once.
        raging.abort_all();
        while let Some(ended) = raging.join_next().await {
            if let Ok(ended) = ended {
                ended?;
            }
        }
        let free_after = until_free(&victim, &name).await?;
        round.note(storm.case, OURS, KEPT, kept as f64 / alone.max(1) as f64);
        round.note(storm.case, OURS, FREE_AFTER, free_after.as_secs_f64() * 1000.0);
    }
    join_all([&victim, &callers].map(LockClient::shutdown)).await;
    Ok(())
}

/// Counts the acquisitions of the lock by one client.
async fn cycles(client: &LockClient, name: &str, span: Duration) -> Result<u64> {
    let (end, mut count) = (Instant::now() + span, 0);
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        match client.acquire(LockRequest::new(name).ttl(TTL).wait(left)).await {
            Ok(guard) => guard.release().await?,
            Err(LockError::Timeout { .. }) => break,
            Err(error) => return Err(error.into()),
        }
        count += 1;
    }
    Ok(count)
}

/// Starts callers that go on until they are aborted.
fn begin(client: &LockClient, storm: &Storm, name: &str) -> JoinSet<Result<()>> {
    let mut callers = JoinSet::new();
    for caller in 0..storm.case.workers {
        let (client, name, request) = (client.clone(), name.to_owned(), storm.request);
        callers.spawn(async move {
            for turn in caller.. {
                let asked = request(LockRequest::new(&*name).ttl(TTL), turn);
                match client.acquire(asked).await {
                    Ok(guard) => guard.release().await?,
                    Err(error) if error.is_busy() || error.is_transient() => {}
                    Err(LockError::Conflict { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
                // Tries may be answered without yielding.
                tokio::task::yield_now().await;
            }
            Ok(())
        });
    }
    callers
}

async fn until_free(client: &LockClient, name: &str) -> Result<Duration> {
    let began = Instant::now();
    let guard = client.acquire(LockRequest::new(name).ttl(TTL).wait(PATIENCE)).await?;
    let free_after = began.elapsed();
    guard.release().await?;
    Ok(free_after)
}
