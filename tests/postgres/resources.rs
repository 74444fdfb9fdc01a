//! Cost of the protocol.

use lock_testkit::{PostgresServer, eventually};

use crate::server::{PostgresFaults, number, sessions};
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
    // A pause of the machine may make the client replace its connection.
    eventually("one is open", LIMIT, async || sessions(&server) == 1).await;
    drop(client);
    // The client's transactions, those of the questions above, and the server's own.
    let asked = counted_since(&server, before, 200).await;
    assert!(asked < 300, "{asked} transactions for 100 cycles");
}
