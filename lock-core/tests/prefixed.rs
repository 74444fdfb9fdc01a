//! Locks behind a prefix obey the whole contract too.

#![allow(clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use lock_core::backend::{Prefixed, async_trait};
use lock_core::{
    DistributedLock, InputKind, LockAdmin, LockClient, LockError, LockName, MemoryBackend, Whom,
};
use lock_testkit::conformance::Harness;

const PREFIX: &str = "shop:";

struct Shop(Prefixed<MemoryBackend>);

#[async_trait]
impl Harness for Shop {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.0.clone())
    }

    async fn evict(&self, name: &LockName) {
        self.0.evict(name, &Whom::All).await.expect("an answer");
    }

    fn longest_name(&self) -> usize {
        lock_core::LockName::MAX_BYTES - PREFIX.len()
    }
}

fn shop() -> Prefixed<MemoryBackend> {
    Prefixed::new(MemoryBackend::new(), PREFIX).expect("a good prefix")
}

lock_testkit::conformance_tests!(Shop(shop()));

#[tokio::test]
async fn c01_a_name_that_is_too_long_with_its_prefix_is_invalid() {
    let shop = LockClient::new(shop());
    let longest = "n".repeat(lock_core::LockName::MAX_BYTES - PREFIX.len());
    let refused = shop.acquire(format!("{longest}n")).await;
    assert!(
        matches!(&refused, Err(LockError::Invalid(input)) if input.kind() == InputKind::Name),
        "{refused:?}"
    );
    shop.acquire(longest).await.expect("a free lock").release().await.expect("it was held");
}

/// With two prefixes, the one nearer to the store comes first.
#[tokio::test]
async fn c49_prefixes_are_put_before_each_other() {
    let store = MemoryBackend::new();
    let stage = Prefixed::new(store.clone(), "test/").expect("a good prefix");
    let shop = LockClient::new(Prefixed::new(stage, PREFIX).expect("a good prefix"));
    let _guard = shop.acquire("a").await.expect("a free lock");
    let held = LockClient::new(store).admin().list("", 9).await.expect("a listing");
    assert_eq!(held.len(), 1);
    assert_eq!(held[0].name.as_str(), "test/shop:a");
    assert_eq!(shop.admin().list("", usize::MAX).await.expect("a listing").len(), 1);
    assert!(shop.admin().list("", 0).await.expect("a listing").is_empty());
}
