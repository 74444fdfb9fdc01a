//! Measures the cost of locks for a Redis server: the memory of a held lock, and the CPU and requests of a grant,
//! a renewal and a release. The page `docs/scaling.md` calculates with these figures.
//!
//! Without `--url` it starts its own `redis-server`, which must be installed; with `--cluster`, three primaries
//! and three replicas, whose figures it adds up. Nobody else should use the servers meanwhile.
//!
//! ```sh
//! cargo run --release --features redis --example footprint -- --locks 100000
//! cargo run --release --features redis-cluster --example footprint -- --cluster --locks 10000 --ttl 30
//! ```

mod server;

use std::time::{Duration, Instant};

use clap::Parser;
use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use leasehold::{LockClient, LockError, LockGuard, LockRequest};
use lock_testkit::{RedisCluster, RedisServer};

use crate::server::{Failure, Server};

/// Number of locks that are requested at once.
const AT_ONCE: usize = 64;

#[derive(Parser)]
struct Args {
    /// The Redis server to measure instead of one of its own.
    #[arg(long)]
    url: Option<String>,
    /// Measure a Redis Cluster of its own.
    #[arg(long, conflicts_with = "url")]
    cluster: bool,
    /// Number of locks held.
    #[arg(long, default_value_t = 1_000)]
    locks: usize,
    /// The TTL in seconds. Each lock is renewed in a third of it.
    #[arg(long, default_value_t = 3)]
    ttl: u64,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let (locks, ttl) = (args.locks, Duration::from_secs(args.ttl));
    match args.url {
        Some(url) => measure(&url, std::slice::from_ref(&url), locks, ttl).await,
        None if args.cluster => {
            let cluster = RedisCluster::start(Duration::from_secs(60)).await;
            let servers: Vec<String> = cluster.servers().iter().map(RedisServer::url).collect();
            measure(&cluster.url(), &servers, locks, ttl).await
        }
        None => {
            let server = RedisServer::start().await;
            measure(&server.url(), &[server.url()], locks, ttl).await
        }
    }
}

/// Measures the locks at `url`, on these servers.
async fn measure(
    url: &str,
    servers: &[String],
    locks: usize,
    ttl: Duration,
) -> Result<(), Failure> {
    let client = leasehold::connect(url).await?;
    // The first lock makes the server learn the scripts.
    client.acquire("footprint").await?.release().await?;
    let (start, begun) = (Server::look(servers).await?, Instant::now());
    let guards = acquire(&client, locks, ttl).await?;
    let (granted, took) = (Server::look(servers).await?, begun.elapsed());
    tell("a grant", start, granted, locks);
    println!("  {:.0} grants a second from one client", locks as f64 / took.as_secs_f64());
    tokio::time::sleep(ttl).await;
    let renewed = Server::look(servers).await?;
    // A period of renewals is a third of the TTL; renewals are batched.
    tell("a period of renewals", granted, renewed, locks * 3);
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    let start_of_release = Server::look(servers).await?;
    try_join_all(guards.into_iter().map(LockGuard::release)).await?;
    let released = Server::look(servers).await?;
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

/// Prints the server's work for each of `count`.
fn tell(what: &str, before: Server, after: Server, count: usize) {
    let cpu = (after.cpu.saturating_sub(before.cpu)).as_secs_f64() * 1e6 / count as f64;
    let requests = (after.requests - before.requests) / count as f64;
    println!("{what}: {cpu:.2} µs of the server's CPU, {requests:.3} requests");
}
