//! Registers behind the fence of their store.

use std::path::Path;
use std::sync::Arc;

use leasehold::LockError;
#[cfg(feature = "redis")]
use leasehold::core::backend::async_trait;
use lock_testkit::chaos::{FileRegister, Register};

/// Opens the register of a lock on the store at `url`.
pub(crate) async fn open(
    url: &str,
    folder: &Path,
    name: &str,
) -> Result<Arc<dyn Register>, LockError> {
    #[cfg(feature = "redis")]
    if url.starts_with("redis:") && !url.contains('?') {
        return Ok(Arc::new(OnRedis::open(url, name).await?));
    }
    if url.contains("unfenced") {
        return Ok(Arc::new(FileRegister::unfenced(folder, name)));
    }
    Ok(Arc::new(FileRegister::open(folder, name)))
}

#[cfg(feature = "redis")]
mod redis {
    use leasehold::redis::{FencedScript, RedisBackend, RedisFence};
    use leasehold::{Fence, FenceError, FencingToken};
    use lock_testkit::RedisServer;

    use super::*;

    /// Start of the keys of registers.
    const PREFIX: &str = "number-";

    /// A key beside its fence.
    pub(crate) struct OnRedis {
        fence: RedisFence,
        key: String,
        get: FencedScript,
    }

    impl OnRedis {
        pub(crate) async fn open(url: &str, name: &str) -> Result<Self, LockError> {
            let key = format!("{PREFIX}{name}");
            let fence = RedisBackend::connect(url).await?.fence(&key);
            Ok(Self { fence, key, get: FencedScript::new("return redis.call('GET', KEYS[1])") })
        }
    }

    #[async_trait]
    impl Register for OnRedis {
        async fn advance(&self, token: FencingToken) -> Result<(), FenceError> {
            self.fence.advance(token).await
        }

        async fn read(&self, token: FencingToken) -> Result<u64, FenceError> {
            let read = self.fence.run(token, &self.get, &[&self.key], None::<&str>).await;
            read.map(|number: Option<u64>| number.unwrap_or(0))
        }

        async fn write(&self, token: FencingToken, value: u64) -> Result<(), FenceError> {
            self.fence.set(token, &self.key, value).await
        }
    }

    /// Deletes all keys of locks without their clients, except the counters of their tokens: the next token would come
    /// from the clock, which may be set back before it.
    pub(crate) fn delete_locks(server: &RedisServer) {
        let keys = server.cli(&["KEYS", "*"]);
        // The marks of fences stay too, since they belong to the resource.
        let stays = |key: &str| key.contains(PREFIX) || key.ends_with(":fence");
        for key in keys.array().iter().map(|key| key.text()).filter(|key| !stays(key)) {
            server.cli(&["DEL", key]);
        }
    }
}

#[cfg(feature = "redis")]
pub(crate) use self::redis::{OnRedis, delete_locks};
