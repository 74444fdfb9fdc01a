//! Locks that are spread over several stores keep the whole contract; what one store's failure stops; and how
//! names move when the list of stores changes.

#![allow(clippy::expect_used, clippy::panic)]

mod away;
mod moving;
mod spread;
mod stores;

use std::sync::Arc;

use lock_core::backend::async_trait;
use lock_core::{DistributedLock, LockAdmin, LockName, MemoryBackend, Whom};
use lock_testkit::conformance::Harness;

use crate::stores::{IDS, sharded};

struct Shards([MemoryBackend; 3]);

#[async_trait]
impl Harness for Shards {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        Arc::new(sharded(IDS.into_iter().zip(self.0.clone())).await)
    }

    async fn evict(&self, name: &LockName) {
        for store in &self.0 {
            store.evict(name, &Whom::All).await.expect("an answer");
        }
    }
}

lock_testkit::conformance_tests!(Shards(Default::default()));
