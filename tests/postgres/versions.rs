//! Clients of version 1 of the schema beside those of this version, and what becomes of old rows.

use std::time::Duration;

use leasehold::{LockClient, LockError, LockRequest, OwnerId, Wait};
use lock_testkit::{PostgresServer, eventually};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::server::number;
use crate::support::{
    LIMIT, client, fresh_name, held, patient, queued, released, served, turn, until_free,
};
use crate::transactions::until_blocked;

/// What a client of version 1 made.
const VERSION_1: &str = include_str!("version_1.sql");

async fn server_of_version_1() -> PostgresServer {
    let server = PostgresServer::start().await;
    server.psql(VERSION_1);
    server
}

/// What a client of version 1 asks: the token, or empty if the lock is busy.
fn acquire(name: &str, owner: OwnerId) -> String {
    format!(
        "SELECT token FROM leasehold.locks_v1_acquire('{name}', '{}', 60000, 'old', true, NULL, \
         9223372036854775807)",
        owner.expose()
    )
}

fn release(name: &str, owner: OwnerId) -> String {
    let owner = owner.expose();
    format!("SELECT leasehold.locks_v1_release('{name}', '{owner}', 9223372036854775807)")
}

async fn is_busy(client: &LockClient, name: &str) -> bool {
    let refused = client.acquire(LockRequest::new(name).wait(Wait::Never)).await;
    matches!(refused, Err(LockError::NotAcquired { .. }))
}

/// P1, C22: a hold that a client of version 1 has outlives the migration, and so does its token. Both
/// versions then exclude each other, and wait in one queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_clients_of_two_versions_share_their_locks() {
    let server = server_of_version_1().await;
    let (name, old) = (fresh_name(), OwnerId::random());
    let before = number(&server, &acquire(&name, old));
    let new = client(&server.url()).await;
    assert!(is_busy(&new, &name).await, "the hold was forgotten");
    let extend = format!(
        "SELECT leasehold.locks_v1_extend('{{{name}}}', '{{{}}}', '{{{before}}}', '{{60000}}')",
        old.expose()
    );
    assert_eq!(server.psql(&extend), "1");
    let waiting = queued(&new, &new, patient(&name), &name).await;
    assert_eq!(server.psql(&release(&name, old)), "t");
    let guard = served(waiting).await;
    assert!(guard.token().get() > before);

    let next = OwnerId::random();
    assert_eq!(server.psql(&acquire(&name, next)), "", "two hold it");
    released(guard).await;
    // It polls, and finds its grant.
    let granted = number(&server, &acquire(&name, next));
    assert!(granted > before && is_busy(&new, &name).await);
    assert_eq!(server.psql(&release(&name, next)), "t");
    until_free(&new, &name).await;
}

/// A call of version 1 that is under way while the schema is migrated grants nothing that the new version
/// does not know of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p1_a_call_of_version_1_amid_the_migration_takes_nothing_unseen() {
    let server = server_of_version_1().await;
    let (name, first, old) = (fresh_name(), OwnerId::random(), OwnerId::random());
    server.psql(&acquire(&name, first));
    server.psql(&release(&name, first));
    // The migration has the tables to itself, and is held up amid its functions.
    let mut stranger = PgConnection::connect(&server.url()).await.expect("a connection");
    let mut busy = stranger.begin().await.expect("begun");
    let alter = "ALTER FUNCTION leasehold.locks_v1_evict(text, bigint) COST 99";
    busy.execute(alter).await.expect("altered");
    let url = server.url();
    let migrating = tokio::spawn(async move { client(&url).await });
    until_blocked(&server, 1).await;
    // The function of version 1 begins, and waits for the table.
    let mut late = PgConnection::connect(&server.url()).await.expect("a connection");
    let call = acquire(&name, old);
    let late = tokio::spawn(async move { late.execute(AssertSqlSafe(call)).await.map(drop) });
    until_blocked(&server, 2).await;
    busy.rollback().await.expect("rolled back");
    let (granted, new) = (late.await.expect("no panic"), migrating.await.expect("migrated"));
    assert_eq!(granted.is_ok(), is_busy(&new, &name).await, "{granted:?}");
}

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
