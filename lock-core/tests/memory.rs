//! The memory backend keeps the whole contract.

#![allow(clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use lock_core::backend::async_trait;
use lock_core::{DistributedLock, LockAdmin, LockName, MemoryBackend, Whom};
use lock_testkit::conformance::Harness;

struct Memory(MemoryBackend);

#[async_trait]
impl Harness for Memory {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.0.clone())
    }

    async fn evict(&self, name: &LockName) {
        self.0.evict(name, &Whom::All).await.expect("an answer");
    }
}

lock_testkit::conformance_tests!(Memory(MemoryBackend::new()));
