//! The whole contract.

use std::sync::Arc;

use lock_core::backend::async_trait;
use lock_core::{DistributedLock, LockAdmin, LockName, Whom};
use lock_testkit::conformance::Harness;
use memcached_backend::MemcachedBackend;

use crate::server::Memcached;

/// A server for each case: a listing reads all locks of its server, and keeps the thread meanwhile.
struct Cache(Memcached);

impl Cache {
    async fn backend(&self) -> MemcachedBackend {
        MemcachedBackend::connect(&self.0.url()).await.expect("a connection")
    }
}

#[async_trait]
impl Harness for Cache {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.backend().await)
    }

    async fn evict(&self, name: &LockName) {
        self.backend().await.evict(name, &Whom::All).await.expect("an answer");
    }
}

lock_testkit::conformance_tests!(Cache(Memcached::start(&[]).await));
