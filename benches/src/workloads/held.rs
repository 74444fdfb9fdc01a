//! A process that holds many locks.

use std::time::Duration;

use clap::Args;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use leasehold::{LockClient, LockError, LockGuard, LockRequest};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::child::{self, Child};
use crate::client::{Result, fresh_name};
use crate::contender::OURS;
use crate::cpu;
use crate::figures::{BYTES, CLIENT_CORES, Case, LOST, RENEWAL_BYTES, RENEWALS};
use crate::network;
use crate::round::Round;

pub(crate) const NAME: &str = "held";

pub(crate) const TTL: Duration = Duration::from_secs(30);

/// Span in which each hold is renewed once.
pub(crate) const PERIOD: Duration = Duration::from_secs(10);

/// Time after which the effects of the last grant are over: on etcd the watch of its key, which is no renewal.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Number of locks acquired at once.
const AT_ONCE: usize = 64;

pub(crate) async fn run(round: &mut Round<'_>) -> Result<()> {
    let (held, case) = (round.effort.held, Case { name: NAME, workers: round.effort.held });
    let mut child = Child::start(&["hold", &round.store.url(), &held.to_string()])?;
    child.line().await?;
    let before = round.store.requests().await?;
    let bytes = network::by_loopback()?;
    child.go().await?;
    let seen: Observation = serde_json::from_str(&child.line().await?)?;
    let bytes = network::by_loopback()?.saturating_sub(bytes);
    let after = round.store.requests().await?;
    child.go().await?;
    child.line().await?;
    round.note(case, OURS, CLIENT_CORES, seen.cores);
    round.note(case, OURS, BYTES, seen.bytes_per_hold);
    round.note(case, OURS, LOST, seen.lost as f64);
    let requests = after.zip(before).map(|(after, before)| (after - before) as f64);
    round.note(case, OURS, RENEWALS, requests.map(|requests| requests * 100.0 / held as f64));
    round.note(case, OURS, RENEWAL_BYTES, requests.map(|_| bytes as f64 / held as f64));
    Ok(())
}

/// Arguments of a child.
#[derive(Args)]
pub(crate) struct Hold {
    url: String,
    count: usize,
}

/// A child's figures about itself.
#[derive(Deserialize, Serialize)]
struct Observation {
    cores: f64,
    bytes_per_hold: f64,
    lost: usize,
}

impl Hold {
    pub(crate) async fn play(self) -> Result<()> {
        let client = leasehold::connect(&self.url).await?;
        // A client's first lock costs more than a hold, and is not counted.
        client.acquire(LockRequest::new(fresh_name("first")).ttl(TTL)).await?.release().await?;
        let memory = cpu::resident()?;
        let held = hold(&client, self.count, TTL).await?;
        sleep(SETTLED_AFTER).await;
        let memory = cpu::resident()?.saturating_sub(memory);
        child::say_and_wait("ready").await?;
        let cpu = cpu::own();
        sleep(PERIOD).await;
        let cpu = cpu::own() - cpu;
        let seen = Observation {
            cores: cpu.as_secs_f64() / PERIOD.as_secs_f64(),
            bytes_per_hold: memory as f64 / self.count as f64,
            lost: held.iter().filter(|guard| !guard.is_held()).count(),
        };
        child::say_and_wait(&serde_json::to_string(&seen)?).await?;
        drop(held);
        client.shutdown().await;
        println!("done");
        Ok(())
    }
}

/// Acquires `count` locks of one client, each with its own name.
pub(crate) async fn hold(
    client: &LockClient,
    count: usize,
    ttl: Duration,
) -> std::result::Result<Vec<LockGuard>, LockError> {
    let prefix = fresh_name("held");
    let requests = (0..count).map(|i| LockRequest::new(format!("{prefix}-{i}")).ttl(ttl));
    let acquiring = requests.map(|request| client.acquire(request));
    stream::iter(acquiring).buffer_unordered(AT_ONCE).try_collect().await
}
