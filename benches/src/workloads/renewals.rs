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
    let client = leasehold::connect(&store.url()).await?;
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
    let requests = requests.zip(before.0).map(|(after, before)| (after - before) as f64);
    round.note(case, contender.name, RENEWALS, requests.map(|count| count * 100.0 / renewals));
    let cpu = cpu.zip(before.1).map(|(after, before)| (after - before).as_secs_f64() * 1e6);
    round.note(case, contender.name, RENEWAL_CPU, cpu.map(|micros| micros / renewals));
    Ok(())
}
