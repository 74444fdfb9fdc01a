//! Redis: the application's own Lua runs behind the fence, in one atomic step.

use async_trait::async_trait;
use leasehold::redis::{FencedScript, RedisBackend, RedisFence};
use leasehold::{FenceError, FencingToken, LockClient};

use crate::stock::{Error, LOCK, STOCK, Stock};

pub(crate) struct RedisStock {
    fence: RedisFence,
    read: FencedScript,
    write: FencedScript,
    locks: LockClient,
}

impl RedisStock {
    pub(crate) async fn at(url: &str) -> Result<Self, Error> {
        let backend = RedisBackend::connect(&store(url)).await?;
        Ok(Self {
            fence: backend.fence(STOCK),
            read: FencedScript::new("return redis.call('GET', KEYS[1])"),
            write: FencedScript::new("return redis.call('SET', KEYS[1], ARGV[1])"),
            locks: leasehold::connect(url).await?,
        })
    }
}

/// Returns the server of the stock. A quorum only keeps locks: the stock is on its first server, together with
/// its fence.
fn store(url: &str) -> String {
    match url.strip_prefix("redis-quorum://").and_then(|servers| servers.split(',').next()) {
        Some(first) => format!("redis://{first}/"),
        None => url.to_owned(),
    }
}

#[async_trait]
impl Stock for RedisStock {
    async fn fill(&self, lamps: i64) -> Result<(), Error> {
        let guard = self.locks.acquire(LOCK).await?;
        self.write(guard.token(), lamps).await?;
        Ok(guard.release().await?)
    }

    async fn read(&self, token: FencingToken) -> Result<i64, Error> {
        Ok(self.fence.run(token, &self.read, &[STOCK], None::<&str>).await?)
    }

    async fn write(&self, token: FencingToken, lamps: i64) -> Result<bool, Error> {
        match self.fence.run::<String>(token, &self.write, &[STOCK], lamps).await {
            Ok(_) => Ok(true),
            Err(FenceError::Stale { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
