//! The etcd backend keeps the whole contract, and what is etcd's own, on real servers.

#![allow(clippy::expect_used, clippy::panic)]

mod access;
mod conformance;
mod faults;
mod fence;
mod resources;
mod servers;

use std::time::Duration;

use leasehold::etcd::EtcdLock;
use leasehold::{ClientOptions, LockClient, LockRequest, OwnerId, Wait};

/// The request time-out of the clients here.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// What a loaded machine may add to a bound of the contract.
const SLACK: Duration = Duration::from_millis(250);

/// A bound for what has none of its own.
const LIMIT: Duration = Duration::from_secs(30);

const MINUTE: Duration = Duration::from_secs(60);

/// The shortest TTL that etcd grants, as its members are set by default.
const SHORTEST_TTL: Duration = Duration::from_secs(2);

async fn client(url: &str) -> LockClient {
    let mut options = ClientOptions::default();
    options.request_timeout = REQUEST_TIMEOUT;
    LockClient::with_options(EtcdLock::connect(url).await.expect("a connection"), options)
}

fn fresh_name() -> String {
    format!("test-{}", OwnerId::random().expose())
}

/// A request that waits for as long as a test may take, for a TTL of a minute.
fn patient(name: &str) -> LockRequest {
    LockRequest::new(name).ttl(MINUTE).wait(Wait::AtMost(LIMIT))
}
