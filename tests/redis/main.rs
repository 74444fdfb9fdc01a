//! The Redis backend keeps the whole contract, and what is Redis's own, on real servers.

#![allow(clippy::expect_used, clippy::panic)]

mod access;
mod doctor;
mod faults;
mod fence;
mod foreign;
mod resources;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use leasehold::core::conformance::Harness;
use leasehold::core::{async_trait, conformance_tests};
use leasehold::redis::RedisLock;
use leasehold::{ClientOptions, DistributedLock, LockClient, LockName, LockRequest, OwnerId, Wait};
use test_support::RedisServer;

struct Redis(RedisServer);

#[async_trait]
impl Harness for Redis {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        Arc::new(RedisLock::connect(&self.0.url()).await.expect("a connection"))
    }

    async fn evict(&self, name: &LockName) {
        self.0.cli(&["DEL", name.as_str()]);
    }
}

conformance_tests!(Redis(RedisServer::start().await));

/// The request time-out of the clients here.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// What a loaded machine may add to a bound of the contract.
const SLACK: Duration = Duration::from_millis(250);

/// A bound for what has none of its own.
const LIMIT: Duration = Duration::from_secs(30);

const MINUTE: Duration = Duration::from_secs(60);

async fn client(url: &str) -> LockClient {
    let mut options = ClientOptions::default();
    options.request_timeout = REQUEST_TIMEOUT;
    LockClient::with_options(RedisLock::connect(url).await.expect("a connection"), options)
}

fn fresh_name() -> String {
    format!("test-{}", OwnerId::random().expose())
}

/// A request that waits for as long as a test may take, for a TTL of a minute.
fn patient(name: &str) -> LockRequest {
    LockRequest::new(name).ttl(MINUTE).wait(Wait::AtMost(LIMIT))
}
