//! One more lock for a client that holds very many.

use std::time::{Duration, Instant};

use leasehold::{LockClient, LockRequest};

use super::held::{self, PERIOD, hold};
use crate::backend::Backend;
use crate::client::{Result, TTL, fresh_name};
use crate::contender::OURS;
use crate::figures::Case;
use crate::round::Round;
use crate::times::Times;

pub(crate) const ALONE: &str = "one more lock, alone";
pub(crate) const BESIDE: &str = "one more lock, beside many";

/// Stores that are fast enough to hold so many.
pub(crate) const BACKENDS: [Backend; 2] = [Backend::Memory, Backend::Redis];

pub(crate) async fn run(round: &mut Round<'_>) -> Result<()> {
    if !BACKENDS.contains(&round.backend) {
        return Ok(());
    }
    let client = leasehold::connect(&round.store.url()).await?;
    one_more(round, ALONE, &client, round.effort.span).await?;
    let held = hold(&client, round.effort.beside, held::TTL).await?;
    // All of them are renewed meanwhile.
    one_more(round, BESIDE, &client, PERIOD).await?;
    drop(held);
    client.shutdown().await;
    Ok(())
}

async fn one_more(
    round: &mut Round<'_>,
    name: &'static str,
    client: &LockClient,
    span: Duration,
) -> Result<()> {
    let (lock, case) = (fresh_name("one-more"), Case { name, workers: round.effort.beside });
    let (mut times, end) = (Times::new()?, Instant::now() + span);
    while Instant::now() < end {
        let begun = Instant::now();
        client.acquire(LockRequest::new(&*lock).ttl(TTL)).await?.release().await?;
        times.note(begun.elapsed())?;
    }
    round.note_times(case, OURS, &times);
    Ok(())
}
