//! Two processes and a server, and what both halves of a mistake do there.

use std::time::Duration;

use leasehold::redis::RedisBackend;
use leasehold::{LockClient, LockGuard, LockRequest};
use redis::{aio::MultiplexedConnection, cmd};
use tokio::time::sleep;

use crate::redis_story::Failure;

/// TTL of the locks here: short, because each mistake waits for one to end.
pub(crate) const TTL: Duration = Duration::from_secs(1);

/// And so long, where nothing waits for their end: no pause of this machine outlasts it.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Interval at which the posts look for a free lock.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The lock that Anna and Berta want.
pub(crate) const KEY: &str = "till";

/// The stock that Anna and Berta sell from.
pub(crate) const STOCK: &str = "stock";

/// Where the fence of the stock remembers the greatest token.
const MARK: &str = "{stock}:mark";

/// Two processes that share a server, as far as a lock can tell.
pub(crate) struct Stage {
    /// A plain connection, for the wrong halves.
    pub(crate) redis: MultiplexedConnection,
    pub(crate) lock: RedisBackend,
    /// Two clients, which know nothing of each other.
    pub(crate) anna: LockClient,
    pub(crate) berta: LockClient,
}

impl Stage {
    pub(crate) async fn set(url: &str) -> Result<Self, Failure> {
        let lock = RedisBackend::connect(url).await?;
        let (anna, berta) = (LockClient::new(lock.clone()), leasehold::connect(url).await?);
        let mut redis = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        // Keys that an earlier run may have left.
        let keys = [KEY, STOCK, MARK];
        let _: u32 = cmd("DEL").arg(&keys).query_async(&mut redis).await?;
        Ok(Self { redis, lock, anna, berta })
    }

    /// Anna takes the lock by Leasehold, and is paused: nothing renews it any more.
    pub(crate) async fn paused_anna(&self) -> Result<LockGuard, Failure> {
        let request = LockRequest::new(KEY).ttl(TTL).max_hold(Duration::ZERO);
        Ok(self.anna.acquire(request).await?)
    }

    /// The lock as the posts take it: `SET KEY who NX PX ttl`. Whether it was free.
    pub(crate) async fn set_nx_px(&self, who: &str, ttl: Duration) -> Result<bool, Failure> {
        let mut set = cmd("SET");
        set.arg(KEY).arg(who).arg("NX").arg("PX").arg(ttl.as_millis() as u64);
        let answer: Option<String> = set.query_async(&mut self.redis.clone()).await?;
        Ok(answer.is_some())
    }

    /// Tries as soon as the lock of somebody else has ended.
    pub(crate) async fn set_nx_px_once_free(&self, who: &str) -> Result<(), Failure> {
        while !self.set_nx_px(who, LONG).await? {
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// `DEL KEY`: how many keys that were.
    pub(crate) async fn del(&self) -> Result<u32, Failure> {
        Ok(cmd("DEL").arg(KEY).query_async(&mut self.redis.clone()).await?)
    }
}
