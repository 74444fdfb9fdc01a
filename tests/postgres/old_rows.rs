//! What becomes of old rows.

use std::time::Duration;

use lock_testkit::{PostgresServer, eventually};
use sqlx::{Connection, Executor, PgConnection};

use crate::server::number;
use crate::support::{LIMIT, client, fresh_name, held, released, turn};

/// R4: locks that nobody has used for a week go, and their next tokens are greater all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r4_locks_that_are_no_longer_used_are_forgotten() {
    let server = PostgresServer::start().await;
    let first = client(&server.url()).await;
    let (used, unused, ahead) = (fresh_name(), fresh_name(), fresh_name());
    for _ in 0..2 {
        turn(&first, &used).await;
        // As if it were not released, and its time over.
        server.psql("UPDATE leasehold.locks_grants SET owner = gen_random_uuid()");
    }
    let guard = held(&first, &fresh_name()).await;
    for (name, token) in [(&unused, 1_000_000), (&ahead, 9_007_199_254_740_000_u64)] {
        server.psql(&format!(
            "INSERT INTO leasehold.locks VALUES ('{name}'); \
             INSERT INTO leasehold.locks_grants VALUES ('{name}', {token})"
        ));
    }
    // The next client clears away.
    let next = client(&server.url()).await;
    let rows = "SELECT count(*) FROM leasehold.locks_grants";
    eventually("one is forgotten", LIMIT, async || number(&server, rows) == 3).await;
    assert_eq!(number(&server, "SELECT count(*) FROM leasehold.locks"), 2 + 1);
    assert!(turn(&next, &unused).await.get() > 1_000_000);
    assert_eq!(turn(&next, &ahead).await.get(), 9_007_199_254_740_001);
    released(guard).await;
}

/// C27: what a long transaction of somebody else makes the server keep does not slow a lock that is used all
/// the time: the newest grant is found by its key.
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
    // Pages that a look at the newest grant reads, instead of the time that it takes.
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

/// C17: what connecting clears away on its way does not grow with the locks that there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_connecting_looks_at_few_of_many_locks() {
    let server = PostgresServer::start().await;
    drop(client(&server.url()).await);
    server
        .psql("INSERT INTO leasehold.locks SELECT 'used-' || n FROM generate_series(1, 100000) n");
    server.psql(
        "INSERT INTO leasehold.locks_grants (name, token) SELECT 'used-' || n, \
         (extract(epoch FROM now()) * 1000000)::bigint FROM generate_series(1, 100000) n",
    );
    let explained = server.psql(
        "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF) SELECT leasehold.locks_v1_forget()",
    );
    let read = explained.split("shared hit=").nth(1).expect("buffers are told");
    let read: u64 = read.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
    assert!(read < 20_000, "{read} pages:\n{explained}");
}
