//! Cost of renewals on the servers of each topology.

use std::time::Duration;

use tokio::time::sleep;

use super::held::hold;
use crate::client::Result;
use crate::contender::Contender;
use crate::figures::{Case, LOST, RENEWAL_CPU, RENEWALS};
use crate::round::Round;

pub(crate) const NAME: &str = "renewals";

/// A tenth of the usual TTL, which gives as many renewals as ten times as many locks.
const TTL: Duration = Duration::from_secs(3);

/// Span in which each hold is renewed once.
const PERIOD: Duration = Duration::from_secs(1);

/// Number of measured periods.
const PERIODS: u32 = 3;

pub(crate) async fn run(round: &mut Round<'_>) -> Result<()> {
    for contender in round.ours() {
        let renewed = renew(round, contender).await;
        round.bear(NAME, contender, renewed);
    }
    Ok(())
}

async fn renew(round: &mut Round<'_>, contender: Contender) -> Result<()> {
    let (store, count) = (round.store_of(contender), round.effort.held);
    let case = Case { name: NAME, workers: count };
    let client = leasehold::connect(store.url()).await?;
    let held = hold(&client, count, TTL).await?;
    sleep(PERIOD).await;
    let before = (store.requests().await?, store.cpu()?);
    sleep(PERIOD * PERIODS).await;
    let (requests, cpu) = (store.requests().await?, store.cpu()?);
    let lost = held.iter().filter(|guard| !guard.is_held()).count();
    drop(held);
    client.shutdown().await;
    let renewals = count as f64 * f64::from(PERIODS);
    round.note(case, contender.name, LOST, lost as f64);
    if let Some((after, before)) = requests.zip(before.0) {
        round.note(case, contender.name, RENEWALS, (after - before) as f64 * 100.0 / renewals);
    }
    if let Some((after, before)) = cpu.zip(before.1) {
        let cpu = (after - before).as_secs_f64() * 1e6 / renewals;
        round.note(case, contender.name, RENEWAL_CPU, cpu);
    }
    Ok(())
}
