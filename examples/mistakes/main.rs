//! The mistakes of the usual blog posts, on a real Redis: each shown failing, and then done right.
//!
//! The wrong halves use nothing but `redis`, as the posts do; the right halves use Leasehold. Without
//! `--url` it starts a `redis-server` of its own, which has to be installed.
//!
//! `cargo run --features redis --example mistakes [-- --url redis://HOST/]`

mod compare_then_delete;
mod delete_without_check;
mod expire_apart;
mod no_renewal;
mod token_after_read;

use std::error::Error;
use std::time::Duration;

use clap::Parser;
use leasehold::redis::RedisLock;
use leasehold::{LockClient, LockGuard, LockRequest};
use redis::{aio::MultiplexedConnection, cmd};
use test_support::RedisServer;
use tokio::time::sleep;

/// How long the locks last here: short, because each mistake waits for one to end.
const TTL: Duration = Duration::from_secs(1);

/// And so long, where nothing waits for their end: no pause of this machine outlasts it.
const LONG: Duration = Duration::from_secs(60);

/// How often the posts look whether a lock is free.
const GLANCE: Duration = Duration::from_millis(20);

/// The lock that Anna and Berta want.
const KEY: &str = "till";

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Parser)]
struct Args {
    /// The Redis server to use instead of one of its own.
    #[arg(long)]
    url: Option<String>,
}

/// Two processes that share a server, as far as a lock can tell.
struct Stage {
    /// A plain connection, for the wrong halves.
    redis: MultiplexedConnection,
    lock: RedisLock,
    /// Two clients, which know nothing of each other.
    anna: LockClient,
    berta: LockClient,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (server, url) = match Args::parse().url {
        Some(url) => (None, url),
        None => {
            let server = RedisServer::start().await;
            let url = server.url();
            (Some(server), url)
        }
    };
    let stage = Stage::set(&url).await?;

    println!("1. SETNX, then EXPIRE");
    expire_apart::wrong(&stage).await?;
    expire_apart::right(&stage).await?;
    println!("\n2. DEL without asking whose it is");
    delete_without_check::wrong(&stage).await?;
    delete_without_check::right(&stage).await?;
    println!("\n3. GET, compare, DEL: three steps");
    compare_then_delete::wrong(&stage).await?;
    compare_then_delete::right(&stage).await?;
    println!("\n4. A TTL, and work that takes longer");
    no_renewal::wrong(&stage).await?;
    no_renewal::right(&stage).await?;
    println!("\n5. A token that is checked only at the write");
    token_after_read::wrong(&stage).await?;
    token_after_read::right(&stage).await?;
    drop(server);
    Ok(())
}

impl Stage {
    async fn set(url: &str) -> Result<Self, Failure> {
        let lock = RedisLock::connect(url).await?;
        let (anna, berta) = (LockClient::new(lock.clone()), leasehold::connect(url).await?);
        let mut redis = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        // What an earlier run may have left.
        let keys = [KEY, token_after_read::STOCK, token_after_read::MARK];
        let _: u32 = cmd("DEL").arg(&keys).query_async(&mut redis).await?;
        Ok(Self { redis, lock, anna, berta })
    }

    /// Anna takes the lock by Leasehold, and is paused: nothing renews it any more.
    async fn paused_anna(&self) -> Result<LockGuard, Failure> {
        let request = LockRequest::new(KEY).ttl(TTL).max_hold(Duration::ZERO);
        Ok(self.anna.acquire(request).await?)
    }

    /// The lock as the posts take it: `SET KEY who NX PX ttl`. Whether it was free.
    async fn set_nx_px(&self, who: &str, ttl: Duration) -> Result<bool, Failure> {
        let mut set = cmd("SET");
        set.arg(KEY).arg(who).arg("NX").arg("PX").arg(ttl.as_millis() as u64);
        let answer: Option<String> = set.query_async(&mut self.redis.clone()).await?;
        Ok(answer.is_some())
    }

    /// The same, as soon as the lock of somebody else has ended.
    async fn set_nx_px_once_free(&self, who: &str) -> Result<(), Failure> {
        while !self.set_nx_px(who, LONG).await? {
            sleep(GLANCE).await;
        }
        Ok(())
    }

    /// `DEL KEY`: how many keys that were.
    async fn del(&self) -> Result<u32, Failure> {
        Ok(cmd("DEL").arg(KEY).query_async(&mut self.redis.clone()).await?)
    }
}

/// Tells what happened, or fails because it did not.
fn tell(happened: bool, what: &str) -> Result<(), Failure> {
    match happened {
        true => println!("   {what}"),
        false => return Err(format!("not as told: {what}").into()),
    }
    Ok(())
}
