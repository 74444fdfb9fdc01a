//! What a lock costs: alone, and when it changes hands; the project beside its peers and beside the
//! floor of the server at hand, in one run.
//!
//! `cargo bench --features redis --bench handoff [-- [--url URL] [--seconds N] [--rounds N]]`
//!
//! Runs on a server of its own of each kind that is compiled in (`redis`, `etcd`, `postgres`), or on
//! the one at the URL.

#![cfg_attr(
    not(any(feature = "etcd", feature = "postgres", feature = "redis")),
    allow(dead_code, unused_mut, unused_variables, reason = "there is nothing to measure")
)]

mod client;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod report;
mod system;
mod times;
mod workload;

use std::time::Duration;

use clap::Parser;

use crate::client::Result;
use crate::report::Table;
use crate::system::System;
use crate::workload::{alone, hand_overs};

const WORKERS: [usize; 3] = [2, 16, 64];

#[derive(Parser)]
struct Options {
    /// A server to measure instead of one of our own.
    #[arg(long)]
    url: Option<String>,
    /// How long each round lasts.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// How many rounds there are; told is the median of them.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// What cargo adds.
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    for system in systems(options.url.as_deref()).await? {
        compare(&*system, &options).await?;
    }
    Ok(())
}

/// The systems that are compiled in, or the one at `url`.
async fn systems(url: Option<&str>) -> Result<Vec<Box<dyn System>>> {
    let mut systems: Vec<Box<dyn System>> = Vec::new();
    let wanted = |scheme: &str| url.is_none_or(|url| url.starts_with(scheme));
    #[cfg(feature = "redis")]
    if wanted("redis") {
        systems.push(Box::new(redis::Redis::at(url).await));
    }
    #[cfg(feature = "etcd")]
    if wanted("etcd") {
        systems.push(Box::new(etcd::Etcd::at(url).await));
    }
    #[cfg(feature = "postgres")]
    if wanted("postgres") {
        systems.push(Box::new(postgres::Postgres::at(url).await));
    }
    match systems.is_empty() {
        false => Ok(systems),
        true => Err("no server to measure: build with the feature `redis`, `etcd` or `postgres`, \
                     and give a URL of its scheme or none"
            .into()),
    }
}

async fn compare(system: &dyn System, options: &Options) -> Result<()> {
    let span = Duration::from_secs_f64(options.seconds);
    let mut table = Table::new("acquire and release, alone");
    for _ in 0..options.rounds {
        table.add(alone(system, span).await?);
    }
    table.print();
    for workers in WORKERS {
        let mut table = Table::new(&format!("hand-off among {workers}"));
        for _ in 0..options.rounds {
            table.add(hand_overs(system, workers, span).await?);
        }
        table.print();
    }
    Ok(())
}
