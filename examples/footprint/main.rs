//! What locks cost a Redis server: the memory of one that is held, and the CPU and the requests of a grant, a renewal
//! and a release. The page `docs/scaling.md` calculates with these figures.
//!
//! Without `--url` it starts a `redis-server` of its own, which has to be installed. Nobody else should use
//! the server meanwhile.
//!
//! `cargo run --release --features redis --example footprint -- --locks 100000`

mod server;

use std::time::{Duration, Instant};

use clap::Parser;
use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use leasehold::{LockClient, LockError, LockGuard, LockRequest};
use lock_testkit::RedisServer;

use crate::server::{Failure, Server};

/// How many locks are asked for at once.
const AT_ONCE: usize = 64;

#[derive(Parser)]
struct Args {
    /// The Redis server to measure instead of one of its own.
    #[arg(long)]
    url: Option<String>,
    /// How many locks are held.
    #[arg(long, default_value_t = 1_000)]
    locks: usize,
    /// The TTL in seconds. Each lock is renewed in a third of it.
    #[arg(long, default_value_t = 3)]
    ttl: u64,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let own = if args.url.is_none() { Some(RedisServer::start().await) } else { None };
    let url = args.url.clone().or(own.as_ref().map(RedisServer::url)).unwrap_or_default();
    measure(&url, args.locks, Duration::from_secs(args.ttl)).await
}

async fn measure(url: &str, locks: usize, ttl: Duration) -> Result<(), Failure> {
    let client = leasehold::connect(url).await?;
    // The first one has the server learn the scripts.
    client.acquire("footprint").await?.release().await?;
    let (start, begun) = (Server::look(url).await?, Instant::now());
    let guards = acquire(&client, locks, ttl).await?;
    let (granted, took) = (Server::look(url).await?, begun.elapsed());
    tell("a grant", start, granted, locks);
    println!("  {:.0} grants a second from one client", locks as f64 / took.as_secs_f64());
    tokio::time::sleep(ttl).await;
    let renewed = Server::look(url).await?;
    // Renewed at each third of the TTL, in batches.
    tell("a period of renewals", granted, renewed, locks * 3);
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    let start_of_release = Server::look(url).await?;
    try_join_all(guards.into_iter().map(LockGuard::release)).await?;
    let released = Server::look(url).await?;
    tell("a release", start_of_release, released, locks);
    let each = |bytes: f64| bytes / locks as f64;
    println!("a held lock: {:.0} bytes of the server", each(granted.memory - start.memory));
    println!("a name that was used: {:.0} bytes, for a week", each(released.memory - start.memory));
    client.shutdown().await;
    match lost {
        0 => Ok(()),
        lost => Err(format!("{lost} of {locks} locks were lost: choose a longer TTL").into()),
    }
}

async fn acquire(
    client: &LockClient,
    locks: usize,
    ttl: Duration,
) -> Result<Vec<LockGuard>, LockError> {
    let requests = (0..locks).map(|i| LockRequest::new(format!("footprint:{i:08}")).ttl(ttl));
    let acquiring = requests.map(|request| client.acquire(request));
    stream::iter(acquiring).buffer_unordered(AT_ONCE).try_collect().await
}

/// What the server did for each of so many.
fn tell(what: &str, before: Server, after: Server, count: usize) {
    let cpu = (after.cpu.saturating_sub(before.cpu)).as_secs_f64() * 1e6 / count as f64;
    let requests = (after.requests - before.requests) / count as f64;
    println!("{what}: {cpu:.2} µs of the server's CPU, {requests:.3} requests");
}
