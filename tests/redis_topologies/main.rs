//! The Redis backend on a cluster, and on the primary that sentinels name: it keeps the whole contract on both, also
//! while slots move and servers are replaced.

#![allow(clippy::expect_used, clippy::panic)]

mod cluster;
mod forgotten;
mod load;
mod sentinel;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;

use leasehold::DistributedLock;
use leasehold::redis::RedisBackend;

async fn backend(url: &str) -> Arc<dyn DistributedLock> {
    Arc::new(RedisBackend::connect(url).await.expect("a connection"))
}
