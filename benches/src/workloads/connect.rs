//! Connecting to a store with very many names of locks that nobody holds.

use std::time::Instant;

use crate::client::Result;
use crate::contender::OURS;
use crate::effort::Effort;
use crate::figures::{CONNECTED_AFTER, Case};
use crate::round::Round;
use crate::times::Times;

pub(crate) const NAME: &str = "connect beside names";

const TIMES: usize = 20;

/// Returns the number of names.
pub(crate) fn names(effort: Effort) -> usize {
    500_000 / effort.fewer_waiters
}

pub(crate) async fn run(round: &mut Round<'_>) -> Result<()> {
    let (url, names) = (round.store.url(), names(round.effort));
    // The first client makes the schema before the names exist.
    leasehold::connect(&url).await?.shutdown().await;
    round.store.fill(names).await?;
    let mut times = Times::new()?;
    for _ in 0..TIMES {
        let begun = Instant::now();
        let client = leasehold::connect(&url).await?;
        times.note(begun.elapsed())?;
        client.shutdown().await;
    }
    let case = Case { name: NAME, workers: names };
    round.note(case, OURS, CONNECTED_AFTER, times.quantile(0.5) / 1_000.0);
    Ok(())
}
