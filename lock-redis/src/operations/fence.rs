//! The side of the resource, for resources on Redis.

use std::sync::{Arc, LazyLock};
use std::{fmt, iter};

use async_trait::async_trait;
use lock_core::backend::KeepsFences;
use lock_core::{Fence, FenceError, FencingToken};
use redis::{FromRedisValue, ToRedisArgs, Value};

use crate::operations::backend::RedisBackend;
use crate::protocol::error::unreadable;
use crate::protocol::reply;
use crate::scripts::Program;
use crate::topology::Topology;

/// The fence of a resource on a Redis server: the greatest token that the resource has seen, stored beside it.
///
/// [`RedisBackend::fence`](crate::RedisBackend::fence) makes it. The mark is a key without an expiry. It belongs to
/// the resource, not to the lock: deleting the lock does not lower it. Advance first, then read, then write with
/// [`set`](Self::set) or [`run`](Self::run).
#[derive(Clone)]
pub struct RedisFence {
    server: Arc<Topology>,
    mark: String,
}

impl RedisFence {
    pub(crate) fn new(server: Arc<Topology>, mark: String) -> Self {
        Self { server, mark }
    }

    /// Sets `key` to `value` unless a greater token than `token` was seen, in one atomic step.
    ///
    /// An accepted token advances the fence. The key of a lock is the lock's record, so the data needs another key: for
    /// the lock `stock:42`, for example, `stock:42:data`.
    ///
    /// # Errors
    /// - [`FenceError::Stale`] if a greater token was seen; nothing is written.
    /// - [`FenceError::Backend`] if the server cannot be reached or refuses, or if the key is that of a lock or of the
    ///   fence's mark; nothing is written then.
    ///
    /// # Cancel safety
    /// If the future is dropped, or fails with an unknown outcome, the value may have been written, or may still be
    /// written later. Then write nothing more within the same hold.
    pub async fn set(
        &self,
        token: FencingToken,
        key: &str,
        value: impl ToRedisArgs + Send,
    ) -> Result<(), FenceError> {
        static SET: LazyLock<FencedScript> =
            LazyLock::new(|| FencedScript::new("return redis.call('SET', KEYS[1], ARGV[1])"));
        self.request(token, &SET, &[key], value.to_redis_args()).await.map(drop)
    }

    /// Runs `script` unless a greater token than `token` was seen, in one atomic step, and returns the script's
    /// answer. It is for writes that do more than set one key. `args` is one argument, a slice or a tuple of
    /// arguments, or `None::<&str>`.
    ///
    /// An accepted token advances the fence, even if the script then fails.
    ///
    /// # Errors
    /// - [`FenceError::Stale`] if a greater token was seen; the script did not run.
    /// - [`FenceError::Backend`] if the server cannot be reached or refuses, if one of the keys is that of a lock or of
    ///   the fence's mark (the script did not run), if the script fails (its earlier writes stay), or if its answer is
    ///   no `T`.
    ///
    /// # Cancel safety
    /// As [`set`](Self::set).
    ///
    /// ```no_run
    /// # async fn sell(fence: lock_redis::RedisFence, token: lock_core::FencingToken)
    /// # -> Result<(), lock_core::FenceError> {
    /// use lock_redis::FencedScript;
    ///
    /// let sell = FencedScript::new("return redis.call('DECRBY', KEYS[1], ARGV[1])");
    /// let left: i64 = fence.run(token, &sell, &["stock:42:data"], 1).await?;
    /// # Ok(()) }
    /// ```
    pub async fn run<T: FromRedisValue>(
        &self,
        token: FencingToken,
        script: &FencedScript,
        keys: &[&str],
        args: impl ToRedisArgs + Send,
    ) -> Result<T, FenceError> {
        let answer = self.request(token, script, keys, args.to_redis_args()).await?;
        Ok(reply::read(answer, "the answer of a fenced script")?)
    }

    async fn request(
        &self,
        token: FencingToken,
        script: &FencedScript,
        keys: &[&str],
        args: Vec<Vec<u8>>,
    ) -> Result<Value, FenceError> {
        const WHAT: &str = "the answer of a fence";
        let keys: Vec<String> =
            iter::once(&*self.mark).chain(keys.iter().copied()).map(str::to_owned).collect();
        let args = [token.get().to_redis_args(), args].concat();
        let reply = self.server.run(&script.0, &keys, args).await?;
        let mut parts: Vec<Value> = reply::read(reply, WHAT)?;
        let answer = if parts.len() > 1 { parts.pop() } else { None };
        match reply::read::<Option<String>>(parts.pop().unwrap_or(Value::Nil), WHAT)? {
            None => Ok(answer.unwrap_or(Value::Nil)),
            Some(seen) => {
                let seen = seen.parse().map_err(|_| unreadable("the mark of a fence"))?;
                Err(FenceError::stale(token, seen))
            }
        }
    }
}

/// A Lua script that runs only if a fence lets its token pass: see [`RedisFence::run`].
///
/// Its keys and arguments are in `KEYS` and `ARGV`, from 1. Make it once and keep it: it is hashed once, and sent to
/// a server once.
#[derive(Debug)]
pub struct FencedScript(Program);

impl FencedScript {
    /// Takes the body of a Lua function, whose result is the answer.
    pub fn new(lua: &str) -> Self {
        Self(Program::fenced(lua))
    }
}

impl KeepsFences for RedisBackend {
    type Fence = RedisFence;

    fn fence_of(&self, resource: &str) -> RedisFence {
        self.fence(resource)
    }
}

#[cfg(feature = "quorum")]
impl KeepsFences for crate::QuorumBackend {
    type Fence = crate::QuorumFence;

    fn fence_of(&self, resource: &str) -> crate::QuorumFence {
        self.fence(resource)
    }
}

#[async_trait]
impl Fence for RedisFence {
    async fn advance(&self, token: FencingToken) -> Result<(), FenceError> {
        static NOTHING: LazyLock<FencedScript> = LazyLock::new(|| FencedScript::new(""));
        self.request(token, &NOTHING, &[], Vec::new()).await.map(drop)
    }

    async fn seen(&self) -> Result<Option<FencingToken>, FenceError> {
        let mut get = redis::cmd("GET");
        get.arg(&self.mark);
        let mark = self.server.send(&self.mark, get).await?;
        let seen: Option<String> = reply::read(mark, "the mark of a fence")?;
        let seen = seen.map(|seen| seen.parse()).transpose();
        Ok(seen.map_err(|_| unreadable("the mark of a fence"))?)
    }
}

impl fmt::Debug for RedisFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisFence").field("mark", &self.mark).finish_non_exhaustive()
    }
}
