//! A worker is stopped for longer than its lease, and then continues as if nothing had happened. The fence on a
//! real server refuses its late write.
//!
//! ```sh
//! cargo run -p fenced --features etcd,postgres              # starts its own servers
//! cargo run -p fenced --features redis-cluster,redis-sentinel     # on these too
//! cargo run -p fenced --features etcd -- --url etcd://127.0.0.1:2379/
//! ```
//!
//! Its own servers need `redis-server`, `etcd` and Postgres to be installed, each for its feature. The worker is
//! a process, and is really stopped (SIGSTOP). The written data is the same everywhere; the file of each backend
//! shows how a write is tied to the fence.

#![cfg_attr(
    not(any(feature = "etcd", feature = "postgres", feature = "redis")),
    allow(dead_code, reason = "there is nothing to tell")
)]

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod stock;

use std::process::Stdio;
use std::time::Duration;

use leasehold::LockRequest;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::stock::{Error, LOCK, Stock};

const TTL: Duration = Duration::from_secs(2);

/// Long enough that even a very busy machine causes no failover.
#[cfg(any(feature = "redis-cluster", feature = "redis-sentinel"))]
const NEVER_REPLACED: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args[..] {
        [role, url] if role == "worker" => work(url).await,
        [flag, url] if flag == "--url" => tell(url).await,
        [] => tell_everywhere().await,
        _ => Err("usage: fenced [--url URL]".into()),
    }
}

async fn tell_everywhere() -> Result<(), Error> {
    #[cfg(feature = "redis")]
    tell(&lock_testkit::RedisServer::start().await.url()).await?;
    #[cfg(feature = "redis-quorum")]
    {
        let [a, b, c] = [(); 3].map(|()| lock_testkit::RedisServer::start());
        let (a, b, c) = (a.await, b.await, c.await);
        tell(&format!("redis-quorum://{},{},{}", a.addr(), b.addr(), c.addr())).await?;
    }
    #[cfg(feature = "redis-cluster")]
    tell(&lock_testkit::RedisCluster::start(NEVER_REPLACED).await.url()).await?;
    #[cfg(feature = "redis-sentinel")]
    tell(&lock_testkit::RedisSentinels::start(NEVER_REPLACED).await.url()).await?;
    #[cfg(feature = "etcd")]
    tell(&lock_testkit::EtcdServer::start().await.url()).await?;
    #[cfg(feature = "postgres")]
    tell(&lock_testkit::PostgresServer::start().await.url()).await?;
    Ok(())
}

async fn stock(url: &str) -> Result<Box<dyn Stock>, Error> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "redis")]
        Some("redis" | "redis-cluster" | "redis-quorum" | "redis-sentinel") => {
            Ok(Box::new(redis::RedisStock::at(url).await?))
        }
        #[cfg(feature = "etcd")]
        Some("etcd") => Ok(Box::new(etcd::EtcdStock::at(url).await?)),
        #[cfg(feature = "postgres")]
        Some("postgres") => Ok(Box::new(postgres::PostgresStock::at(url).await?)),
        _ => Err("this example knows redis:, etcd: and postgres:, each with its feature".into()),
    }
}

/// Stops a worker between its read and its write, and lets another worker write first.
async fn tell(url: &str) -> Result<(), Error> {
    let stock = stock(url).await?;
    stock.fill(10).await?;
    println!("{}", url.split_once(':').map_or(url, |(scheme, _)| scheme));

    let mut first = Worker::start(url)?;
    println!("  first worker:  {}", first.says().await?);
    first.signal(Signal::STOP)?;
    println!("                 … is stopped for longer than its TTL of {TTL:?}");

    let mut second = Worker::start(url)?;
    println!("  second worker: {}", second.says().await?);
    second.go_on().await?;
    println!("  second worker: {}", second.says().await?);

    first.signal(Signal::CONT)?;
    println!("  first worker:  goes on, as if nothing had been");
    first.go_on().await?;
    let outcome = first.says().await?;
    println!("  first worker:  {outcome}");
    match outcome.contains("refused") {
        true => Ok(()),
        false => Err("the late write was let through".into()),
    }
}

/// Acquires the lock, reads, waits for the signal, and writes. Does not check that it still holds the lock, which
/// it could lose right after the check.
async fn work(url: &str) -> Result<(), Error> {
    let (locks, stock) = (leasehold::connect(url).await?, stock(url).await?);
    let guard = locks.acquire(LockRequest::new(LOCK).ttl(TTL)).await?;
    let token = guard.token();
    let lamps = stock.read(token).await?;
    println!("holds the lock with token {token}, sees {lamps} lamps");
    BufReader::new(tokio::io::stdin()).read_line(&mut String::new()).await?;
    match stock.write(token, lamps - 1).await? {
        true => println!("sold one, {} left", lamps - 1),
        false => println!("is refused: its token is stale"),
    }
    // The lock may be lost by now.
    let _ = guard.release().await;
    Ok(())
}

/// This program, started again as a worker.
struct Worker {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(url: &str) -> Result<Self, Error> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["worker", url]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.kill_on_drop(true).spawn()?;
        let output = process.stdout.take().ok_or("the worker has no output")?;
        Ok(Self { process, said: BufReader::new(output).lines() })
    }

    async fn says(&mut self) -> Result<String, Error> {
        Ok(self.said.next_line().await?.ok_or("the worker ended without a word")?)
    }

    async fn go_on(&mut self) -> Result<(), Error> {
        let input = self.process.stdin.as_mut().ok_or("the worker has no input")?;
        Ok(input.write_all(b"go on\n").await?)
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        let id = self.process.id().and_then(|id| i32::try_from(id).ok());
        Ok(kill_process(id.and_then(Pid::from_raw).ok_or("the worker is gone")?, signal)?)
    }
}
