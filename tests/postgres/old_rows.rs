//! Removal of old rows.

use std::time::Duration;

use leasehold::LockClient;
use lock_testkit::{PgBouncer, PostgresServer, eventually};
use sqlx::{Connection, Executor, PgConnection};

use crate::server::number;
use crate::support::{LIMIT, client, fresh_name, held, released, turn};

/// R4: locks that nobody has used for a week are removed, and their next tokens are still greater.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r4_locks_that_are_no_longer_used_are_forgotten() {
    let server = PostgresServer::start().await;
    let first = client(&server.url()).await;
    let (used, unused, ahead) = (fresh_name(), fresh_name(), fresh_name());
    for _ in 0..2 {
        turn(&first, &used).await;
        // A hold that expired without a release.
        server.psql("UPDATE leasehold.locks_grants SET owner = gen_random_uuid()");
    }
    let guard = held(&first, &fresh_name()).await;
    for (name, token) in [(&unused, 1_000_000), (&ahead, 9_007_199_254_740_000_u64)] {
        server.psql(&format!(
            "INSERT INTO leasehold.locks VALUES ('{name}'); \
             INSERT INTO leasehold.locks_grants VALUES ('{name}', {token})"
        ));
    }
    // Releases clear old rows now and then, over direct connections and behind a pooler.
    let pooler = PgBouncer::start(&server).await;
    let next = client(&server.url()).await;
    let rows = "SELECT count(*) FROM leasehold.locks_grants";
    until_forgotten(&next, &used, async || number(&server, rows) == 3).await;
    server.psql("INSERT INTO leasehold.locks_grants VALUES ('old', 1); INSERT INTO leasehold.locks VALUES ('old')");
    until_forgotten(&client(&pooler.url()).await, &used, async || number(&server, rows) == 3).await;
    assert_eq!(number(&server, "SELECT count(*) FROM leasehold.locks"), 2 + 1);
    assert!(turn(&next, &unused).await.get() > 1_000_000);
    assert_eq!(turn(&next, &ahead).await.get(), 9_007_199_254_740_001);
    released(guard).await;
}

/// Acquires and releases a lock until the old rows are gone.
async fn until_forgotten(client: &LockClient, name: &str, mut is_gone: impl AsyncFnMut() -> bool) {
    eventually("it is forgotten", LIMIT, async || {
        for _ in 0..20 {
            turn(client, name).await;
        }
        is_gone().await
    })
    .await;
}

/// C27: old versions that another's long transaction keeps alive do not slow a lock in constant use: the newest
/// grant is found by its key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_an_open_snapshot_does_not_slow_a_hot_lock() {
    const CYCLES: usize = 2000;
    let server = PostgresServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    let mut stranger = PgConnection::connect(&server.url()).await.expect("a connection");
    let mut open = stranger.begin().await.expect("begun");
    open.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await.expect("set");
    open.execute("SELECT count(*) FROM leasehold.locks_grants").await.expect("a snapshot");
    for _ in 0..CYCLES {
        turn(&client, &name).await;
    }
    // Counts the pages that are read for the newest grant, in place of its time.
    let explained = server.psql(&format!(
        "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF) SELECT * FROM leasehold.locks_grants \
         WHERE name = '{name}' ORDER BY token DESC LIMIT 1"
    ));
    let read = explained.split("shared hit=").nth(1).expect("buffers are told");
    let read: usize = read.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
    assert!(read < 20, "{read} pages after {CYCLES} cycles:\n{explained}");
    tokio::time::timeout(Duration::from_secs(1), turn(&client, &name)).await.expect("as quick");
    open.rollback().await.expect("rolled back");
}

/// C17: connecting clears nothing, looking at a lock compiles no plan, and clearing reads as many rows with many locks
/// as with few.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_connecting_takes_as_long_however_many_locks_there_are() {
    let server = PostgresServer::start_with(&[
        "log_statement=all",
        "session_preload_libraries=auto_explain",
        "auto_explain.log_min_duration=0",
        "auto_explain.log_analyze=on",
        "auto_explain.log_nested_statements=on",
    ])
    .await;
    drop(client(&server.url()).await);
    server.psql("INSERT INTO leasehold.locks SELECT 'old-' || n FROM generate_series(1, 100000) n");
    server.psql(
        "INSERT INTO leasehold.locks_grants (name, token) SELECT 'old-' || n, n \
         FROM generate_series(1, 100000) n",
    );
    let second = client(&server.url()).await;
    second.admin().inspect("old-1").await.expect("an answer");
    assert!(server.log().contains("locks_v1_list"), "requests are logged");
    assert!(server.log().contains("Index Scan"), "plans are logged");
    assert!(
        !server.log().contains("JIT:"),
        "a request is compiled, which takes longer than to run it"
    );
    let called = "FROM \"leasehold\".\"locks_v1_forget_unused\"";
    assert!(!server.log().contains(called), "connecting clears away");
    let explained = server.psql(
        "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF) SELECT leasehold.locks_v1_forget_unused()",
    );
    let read = explained.split("shared hit=").nth(1).expect("buffers are told");
    let read: u64 = read.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
    assert!(read < 20_000, "{read} pages:\n{explained}");
}
