//! The Postgres backend keeps the whole contract, and what is Postgres's own, on real servers.

#![allow(clippy::expect_used, clippy::panic)]

mod access;
mod advisory;
mod conformance;
mod doctor;
mod faults;
mod fence;
mod resources;
mod tokens;

use std::time::Duration;

use leasehold::postgres::PostgresLock;
use leasehold::{ClientOptions, LockClient, LockRequest, OwnerId, Wait};
use test_support::{PostgresServer, child};
use tokio::sync::OnceCell;

#[test]
fn child_role() {
    child::run(async |role| match role.as_str() {
        "advisory holder" => advisory::hold().await,
        other => panic!("no such role: {other}"),
    });
}

/// The request time-out of the clients here.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// What a loaded machine may add to a bound of the contract.
const SLACK: Duration = Duration::from_millis(250);

/// A bound for what has none of its own.
const LIMIT: Duration = Duration::from_secs(30);

const MINUTE: Duration = Duration::from_secs(60);

/// The server that all tests use which leave it as they found it.
async fn shared() -> &'static PostgresServer {
    static SHARED: OnceCell<PostgresServer> = OnceCell::const_new();
    SHARED.get_or_init(PostgresServer::start).await
}

async fn client(url: &str) -> LockClient {
    client_of(PostgresLock::connect(url).await.expect("a connection"))
}

fn client_of(lock: PostgresLock) -> LockClient {
    let mut options = ClientOptions::default();
    options.request_timeout = REQUEST_TIMEOUT;
    LockClient::with_options(lock, options)
}

fn fresh_name() -> String {
    format!("test-{}", OwnerId::random().expose())
}

/// A request that waits for as long as a test may take, for a TTL of a minute.
fn patient(name: &str) -> LockRequest {
    LockRequest::new(name).ttl(MINUTE).wait(Wait::AtMost(LIMIT))
}
