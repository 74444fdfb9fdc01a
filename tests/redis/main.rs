//! Tests of the Redis backend on real servers: the whole contract, and properties of Redis.

#![allow(clippy::expect_used, clippy::panic)]

mod access;
mod bounds;
mod cluster;
mod companions;
mod connections;
mod crowds;
mod doctor;
mod failover;
mod faults;
mod fence;
mod foreign;
mod formats;
mod holders;
mod kinds;
mod losses;
mod queue;
#[path = "../support/redis_idle.rs"]
mod redis_idle;
#[path = "../support/redis_renewals.rs"]
mod redis_renewals;
#[path = "../support/redis_server.rs"]
mod redis_server;
#[path = "../support/redis_watches.rs"]
mod redis_watches;
mod refusals;
mod renewals;
mod resources;
mod rights;
mod server;
mod several;
#[allow(dead_code, unused_imports, reason = "it is shared with the tests of other servers")]
#[path = "../support/mod.rs"]
mod support;
mod together;
mod tokens;
mod watching;
mod withdrawals;

use std::sync::Arc;

use leasehold::core::backend::async_trait;
use leasehold::{DistributedLock, LockName};
use lock_testkit::RedisServer;
use lock_testkit::conformance::Harness;
use lock_testkit::conformance_tests;

use crate::support::connected;

struct Redis(RedisServer);

#[async_trait]
impl Harness for Redis {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        connected(&self.0.url()).await
    }

    async fn evict(&self, name: &LockName) {
        self.0.cli(&["DEL", name.as_str()]);
    }

    fn tells_changes(&self) -> bool {
        let setting = self.0.cli(&["CONFIG", "GET", "notify-keyspace-events"]);
        !setting.array()[1].text().is_empty()
    }
}

conformance_tests!(Redis(RedisServer::start().await));
