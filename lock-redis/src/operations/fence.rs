//! The side of the resource, for resources on Redis.

use std::sync::{Arc, LazyLock};
use std::{fmt, iter};

use async_trait::async_trait;
use lock_core::backend::KeepsFences;
use lock_core::{Fence, FenceError, FencingToken};
use redis::{Cmd, FromRedisValue, ToRedisArgs, Value};

use crate::operations::backend::RedisBackend;
use crate::protocol::error::{RequestError, classify, unreadable};
use crate::protocol::reply;
use crate::scripts::{Form, Program, Servers};
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

    /// Returns the call of `script` under this fence, for a connection, a pipeline or a transaction of the application's
    /// own. `keys` and `args` are as those of [`run`](Self::run). The whole script is sent each time.
    ///
    /// In a pipeline or a transaction a stale token stops this call alone: let the script do all that depends on it.
    /// On a cluster, the mark `{resource}:fenced` and the keys share a slot, or the server refuses the call.
    ///
    /// ```no_run
    /// # async fn sell(fence: lock_redis::RedisFence, token: lock_core::FencingToken,
    /// #     mut connection: redis::aio::MultiplexedConnection)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_redis::FencedScript;
    ///
    /// let sell = FencedScript::new("return redis.call('DECRBY', KEYS[1], ARGV[1])");
    /// let call = fence.script(token, &sell, &["stock:42:data"], 1);
    /// let (answer, sold): (redis::Value, i64) = redis::pipe()
    ///     .atomic()
    ///     .add_command(call.command())
    ///     .incr("sold", 1)
    ///     .query_async(&mut connection)
    ///     .await?;
    /// let left: i64 = call.read(answer)?;
    /// # Ok(()) }
    /// ```
    pub fn script(
        &self,
        token: FencingToken,
        script: &FencedScript,
        keys: &[&str],
        args: impl ToRedisArgs,
    ) -> FencedCall {
        let (keys, args) = self.call(token, keys, args.to_redis_args());
        FencedCall { token, command: script.0.call(Form::Text, Servers::One, &keys, args) }
    }

    /// Returns the keys and the arguments of a fenced script.
    fn call(
        &self,
        token: FencingToken,
        keys: &[&str],
        args: Vec<Vec<u8>>,
    ) -> (Vec<String>, Vec<Vec<u8>>) {
        let keys = iter::once(&*self.mark).chain(keys.iter().copied()).map(str::to_owned);
        (keys.collect(), [token.get().to_redis_args(), args].concat())
    }

    async fn request(
        &self,
        token: FencingToken,
        script: &FencedScript,
        keys: &[&str],
        args: Vec<Vec<u8>>,
    ) -> Result<Value, FenceError> {
        let (keys, args) = self.call(token, keys, args);
        answer_of(token, self.server.run(&script.0, &keys, args).await?)
    }
}

/// Returns the answer of a script whose token the fence let pass.
fn answer_of(token: FencingToken, reply: Value) -> Result<Value, FenceError> {
    const WHAT: &str = "the answer of a fence";
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

/// The call of a script under a fence, for the application's own connection: see [`RedisFence::script`].
#[must_use = "a call does nothing until it is sent"]
pub struct FencedCall {
    token: FencingToken,
    command: Cmd,
}

impl FencedCall {
    /// Returns the command to send, alone or as a part of a pipeline or a transaction.
    pub fn command(&self) -> Cmd {
        self.command.clone()
    }

    /// Reads the reply to the command.
    ///
    /// # Errors
    /// - [`FenceError::Stale`] if a greater token was seen; the script did not run.
    /// - [`FenceError::Backend`] if the reply is an error of the server, or the script's answer is no `T`.
    pub fn read<T: FromRedisValue>(&self, reply: Value) -> Result<T, FenceError> {
        let reply =
            reply.extract_error().map_err(|error| classify(RequestError::Execute(error)))?;
        Ok(reply::read(answer_of(self.token, reply)?, "the answer of a fenced script")?)
    }
}

impl fmt::Debug for FencedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedCall").field("token", &self.token).finish_non_exhaustive()
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
