//! Cost of the protocol.

use std::time::Duration;

use lock_testkit::{Mode, PostgresServer, Proxy, eventually};
use tokio::time::timeout;

use crate::server::{PostgresFaults, number, sessions, url_at};
use crate::support::{LIMIT, client, turn};

lock_testkit::test_resources!(PostgresFaults);

/// Returns the transactions that the server has counted so far; the count is a little late.
pub(crate) fn transactions(server: &PostgresServer) -> u64 {
    // Postgres 15 and newer report at once on request.
    server.psql(
        "DO $$ BEGIN IF to_regproc('pg_stat_force_next_flush') IS NOT NULL THEN \
         PERFORM pg_stat_force_next_flush(); END IF; END $$",
    );
    number(
        server,
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'",
    )
}

/// Returns the number of transactions since `before`, once at least `least` are counted. A session reports its
/// count when it ends.
pub(crate) async fn counted_since(server: &PostgresServer, before: u64, least: u64) -> u64 {
    let counted = || transactions(server) - before;
    eventually("the transactions are counted", LIMIT, async || counted() >= least).await;
    counted()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_and_release_are_one_transaction_each_on_one_connection() {
    let server = PostgresServer::start().await;
    let client = client(&server.url()).await;
    turn(&client, "first").await;
    // `connect` compares two sessions, to detect a pooler.
    eventually("those are closed", LIMIT, async || sessions(&server) == 1).await;
    let before = transactions(&server);
    for _ in 0..100 {
        turn(&client, "again").await;
    }
    // A pause of the machine may make the client open another.
    assert!(sessions(&server) <= 2, "requests that follow each other share a connection");
    drop(client);
    // The client's transactions, those of the questions above, and the server's own.
    let asked = counted_since(&server, before, 200).await;
    assert!(asked < 300, "{asked} transactions for 100 cycles");
}

/// R1: a connection whose caller left before it was open is closed, though the client needs no other one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_a_connection_that_its_caller_left_is_closed() {
    let server = PostgresServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let client = client(&format!("{}?sslmode=disable", url_at(proxy.addr()))).await;
    proxy.set(Mode::SlowToOpen(Duration::from_secs(1)));
    proxy.cut();
    eventually("those are closed", LIMIT, async || sessions(&server) == 0).await;
    let admin = client.admin();
    let early = timeout(Duration::from_millis(500), admin.inspect("a"));
    let (left, answered) = tokio::join!(early, admin.inspect("b"));
    left.expect_err("a connection takes a second");
    answered.expect("an answer");
    eventually("one is left", LIMIT, async || sessions(&server) == 1).await;
}
