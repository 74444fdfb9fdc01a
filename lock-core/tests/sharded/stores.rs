//! The stores of these tests.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use lock_core::backend::{
    Attempt, Claim, Extension, Release, Renewal, Shard, ShardedLock, WaiterHandle, async_trait,
};
use lock_core::{
    BackendError, Capabilities, DistributedLock, FencingToken, Finding, Holder, LockAdmin,
    LockName, LockState, MemoryBackend, OwnerId, TokenDurability, Whom,
};

pub(crate) const IDS: [&str; 3] = ["a", "b", "c"];

/// The locks of stores with these ids.
pub(crate) async fn sharded<B: DistributedLock>(
    stores: impl IntoIterator<Item = (&'static str, B)>,
) -> ShardedLock {
    let shards = stores.into_iter().map(|(id, store)| Shard::new(id, store));
    ShardedLock::open(shards).await.expect("shards")
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).expect("a name")
}

/// The first names of which this holds.
pub(crate) fn names(count: usize, fits: impl Fn(&LockName) -> bool) -> Vec<LockName> {
    let all = (0..).map(|number| name(&format!("stock:{number}")));
    all.filter(fits).take(count).collect()
}

/// A store whose tokens are those of memory less a number, which is far back if it is great.
#[derive(Clone, Default)]
pub(crate) struct Counted {
    pub(crate) store: MemoryBackend,
    pub(crate) less: std::sync::Arc<AtomicU64>,
    pub(crate) durability: Option<TokenDurability>,
}

impl Counted {
    /// A store whose tokens do not begin at the time.
    pub(crate) fn like_etcd() -> Self {
        Self { durability: Some(TokenDurability::Store), ..Self::default() }
    }

    fn token(&self, token: FencingToken) -> FencingToken {
        FencingToken::new(token.get() - self.less.load(Ordering::Relaxed)).expect("a token")
    }
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counted")
    }
}

#[async_trait]
impl DistributedLock for Counted {
    fn capabilities(&self) -> Capabilities {
        let mut all = self.store.capabilities();
        all.tokens = self.durability.unwrap_or(all.tokens);
        all
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let attempt = self.store.try_acquire(claim, waiter).await?;
        Ok(match attempt {
            Attempt::Granted(mut grant) => {
                grant.token = self.token(grant.token);
                Attempt::Granted(grant)
            }
            busy => busy,
        })
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        self.store.extend_all(renewals).await
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.store.release(name, owner).await
    }

    async fn withdraw(&self, name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        self.store.withdraw(name, owner).await
    }
}

#[async_trait]
impl LockAdmin for Counted {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        self.store.inspect(name).await
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        self.store.list(prefix, limit).await
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        self.store.evict(name, whom).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>, BackendError> {
        self.store.doctor().await
    }
}
