//! C39: several locks on a Postgres server.

use lock_testkit::Expect;
use std::time::Duration;

use leasehold::{DistributedLock, LockName, LockRequest};
use lock_testkit::PostgresServer;
use sqlx::{Connection, PgConnection};

use crate::resources::{counted_since, transactions};
use crate::support::client;

const NAMES: [&str; 3] = ["a", "b", "c"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c39_free_locks_are_acquired_by_one_transaction() {
    let server = PostgresServer::start().await;
    let client = client(&server.url()).await;
    let before = transactions(&server);
    for _ in 0..100 {
        client.acquire_all(NAMES).await.expect("free").release().await.expect("held to the end");
    }
    drop(client);
    // One transaction to acquire and three to release in each cycle, and those of the counting, the connection
    // and the server itself.
    let asked = counted_since(&server, before, 400).await;
    assert!(asked < 500, "{asked} transactions for 100 cycles");
}

/// C19: an acquisition of several does not wait for a lock whose row is kept locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c39_a_jammed_lock_keeps_nobody_from_those_before_it() {
    let server = PostgresServer::start().await;
    let locks = leasehold::backend(&server.url()).await.expect("a connection");
    let client = client(&server.url()).await;
    client.acquire_all(NAMES).await.expect("free").release().await.expect("held to the end");
    let mut other = PgConnection::connect(&server.url()).await.expect("a connection");
    let mut jam = other.begin().await.expect("a transaction");
    sqlx::query("SELECT FROM leasehold.locks WHERE name = 'b' FOR UPDATE")
        .execute(&mut *jam)
        .await
        .expect("a row");
    let claims = NAMES.map(|name| {
        let request = LockRequest::new(name).ttl(Duration::from_secs(60));
        request.claim().expect("a good claim")
    });
    let grants =
        locks.expect_several().acquire_while_free(&claims).await.expect("it waits for nobody");
    assert_eq!(grants.len(), 1, "the one before the jammed lock");
    let held = client.admin().inspect("a").await.expect("an answer").holder().cloned();
    assert_eq!(held.and_then(|holder| holder.token), Some(grants[0].token));
    drop(jam);
    let name = LockName::new("a").expect("a name");
    locks.withdraw(&name, &[claims[0].owner]).await.expect("an answer");
}
