//! Tasks that acquire and release a lock as often as they can.

use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::{Instant, timeout_at};

use crate::client::{Client, Result};

/// Longest time of a task's last acquisition. Some peers poll.
const LAST: Duration = Duration::from_millis(500);

/// Returns another handle of the client for each task, and the lock of the task.
pub(crate) fn tasks(
    client: &dyn Client,
    names: impl Iterator<Item = String>,
) -> Vec<(Box<dyn Client>, String)> {
    names.map(|name| (client.another(), name)).collect()
}

/// Counts the cycles of each task.
pub(crate) async fn count(
    tasks: Vec<(Box<dyn Client>, String)>,
    span: Duration,
) -> Result<Vec<u64>> {
    let end = Instant::now() + span;
    let working = tasks.into_iter().map(|(client, name)| tokio::spawn(until(end, client, name)));
    try_join_all(working).await?.into_iter().collect()
}

async fn until(end: Instant, mut client: Box<dyn Client>, name: String) -> Result<u64> {
    let mut count = 0;
    let cycles = async {
        while Instant::now() < end {
            client.acquire(&name).await?;
            client.release(&name).await?;
            count += 1;
        }
        Ok(())
    };
    match timeout_at(end + LAST, cycles).await {
        Ok(Err(error)) => Err(error),
        Ok(Ok(())) | Err(_) => Ok(count),
    }
}
