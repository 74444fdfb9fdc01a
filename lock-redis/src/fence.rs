//! The resource side, for resources that live on Redis.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{BackendError, Fence, FenceError, FencingToken};
use redis::ToRedisArgs;

use crate::error::unreadable;
use crate::reply;
use crate::scripts::FENCE;
use crate::server::Server;

/// The fence of a resource on a Redis server: the greatest token it has seen, kept beside it.
///
/// Made by [`RedisLock::fence`](crate::RedisLock::fence). The mark is a key without an expiry and
/// belongs to the resource, not to the lock: deleting the lock does not lower it. Advance first,
/// then read, then [`set`](Self::set).
#[derive(Clone)]
pub struct RedisFence {
    server: Arc<Server>,
    mark: String,
}

impl RedisFence {
    pub(crate) fn new(server: Arc<Server>, mark: String) -> Self {
        Self { server, mark }
    }

    /// Sets `key` to `value` unless a greater token than `token` was seen, in one atomic step.
    ///
    /// An accepted token advances the fence.
    ///
    /// # Errors
    /// - [`FenceError::Stale`] if a greater token was seen; nothing is written.
    /// - [`FenceError::Backend`] if the server cannot be reached or refuses.
    ///
    /// # Cancel safety
    /// If the future is dropped, or fails with an unknown outcome, the value may have been written, or
    /// may be written yet: within one hold, do not go on writing after that.
    pub async fn set(
        &self,
        token: FencingToken,
        key: &str,
        value: impl ToRedisArgs + Send,
    ) -> Result<(), FenceError> {
        let keys = [self.mark.clone(), key.to_owned()];
        let mut args = token.get().to_redis_args();
        args.extend(value.to_redis_args());
        self.ask(token, &keys, args).await
    }

    async fn ask(
        &self,
        token: FencingToken,
        keys: &[String],
        args: Vec<Vec<u8>>,
    ) -> Result<(), FenceError> {
        let reply = self.server.run(&FENCE, keys, &args).await?;
        match reply::read::<Option<String>>(reply, "the answer of a fence")? {
            None => Ok(()),
            Some(seen) => Err(stale(token, &seen)?),
        }
    }
}

fn stale(token: FencingToken, seen: &str) -> Result<FenceError, BackendError> {
    let seen = seen.parse().map_err(|_| unreadable("the mark of a fence"))?;
    Ok(FenceError::Stale { token, seen })
}

#[async_trait]
impl Fence for RedisFence {
    async fn advance(&self, token: FencingToken) -> Result<(), FenceError> {
        self.ask(token, std::slice::from_ref(&self.mark), token.get().to_redis_args()).await
    }
}

impl fmt::Debug for RedisFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisFence").field("mark", &self.mark).finish_non_exhaustive()
    }
}
