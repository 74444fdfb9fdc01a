//! Fills a store as its users would.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use leasehold::core::OwnerId;
use leasehold::core::backend::WaiterHandle;
use leasehold::{LockName, LockRequest};

use super::verbs::CROWDED;
use super::{Clients, Size};
use crate::client::Result;

/// Requests in flight.
const WORKERS: usize = 64;

/// Owners of one withdrawal.
const OWNERS: usize = 100;

/// Jobs whose runs are recorded: as many records belong to each.
const JOBS: usize = 1000;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Adds the crowd, and tells the time of each part.
pub(super) async fn fill(clients: &Clients, size: Size) -> Result<()> {
    part("names", size.names, |number| name(clients, number)).await?;
    part("runs", size.runs, |number| run(clients, number)).await?;
    part("hundreds of marks", size.marks / OWNERS, |number| marks(clients, number)).await?;
    // The waiters come last: a place that is not looked at ends after some seconds.
    let held = LockRequest::new(CROWDED).ttl(DAY).claim()?;
    clients.backend.acquire(&held, None).await?;
    part("waiters", size.waiters, |_| waiter(clients)).await
}

/// Does a step `count` times, by some workers at once.
async fn part<F: Future<Output = Result<()>>>(
    what: &str,
    count: usize,
    step: impl Fn(usize) -> F,
) -> Result<()> {
    let (start, next) = (Instant::now(), AtomicUsize::new(0));
    let worker = async || {
        loop {
            match next.fetch_add(1, Ordering::Relaxed) {
                number if number < count => step(number).await?,
                _ => return Result::Ok(()),
            }
        }
    };
    try_join_all((0..WORKERS).map(|_| worker())).await?;
    println!("{count} {what}: {:.1?}", start.elapsed());
    Ok(())
}

async fn name(clients: &Clients, number: usize) -> Result<()> {
    let claim = LockRequest::new(format!("crowd/{number}")).claim()?;
    clients.backend.acquire(&claim, None).await?;
    clients.backend.release(&claim.name, claim.owner).await?;
    Ok(())
}

async fn run(clients: &Clients, number: usize) -> Result<()> {
    let job = clients.locks.once(format!("job/{}", number % JOBS));
    let job = job.occurrence(format!("occurrence-{number}")).remember(DAY);
    let _ran = job.run(async |_| ()).await?;
    Ok(())
}

/// Withdraws claims that had no effect; the store keeps a mark of each.
async fn marks(clients: &Clients, number: usize) -> Result<()> {
    let owners: Vec<OwnerId> = (0..OWNERS).map(|_| OwnerId::random()).collect();
    let name = LockName::new(format!("crowd/{number}"))?;
    Ok(clients.backend.withdraw(&name, &owners).await?)
}

async fn waiter(clients: &Clients) -> Result<()> {
    let claim = LockRequest::new(CROWDED).claim()?;
    let (handle, _) = WaiterHandle::channel();
    clients.backend.acquire(&claim, Some(&handle)).await?;
    Ok(())
}
