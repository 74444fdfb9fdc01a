//! Tables with many rows: no statement of a client reads a whole table.

use std::time::Duration;

use leasehold::postgres::PostgresBackend;
use leasehold::{DistributedLock, Fence, LockClient};
use lock_testkit::{PostgresServer, eventually};

use crate::security::use_all;
use crate::server::{number, sessions};
use crate::support::{LIMIT, MINUTE, client, fresh_name, held, patient, released};

/// Rows of each table. The planner chooses the same plans for a million, which take a minute to write.
const FILL: &str = "
    CREATE TEMPORARY TABLE n AS SELECT n, 'n' || n AS name FROM generate_series(1, 40000) n;
    INSERT INTO leasehold.locks SELECT name FROM n;
    INSERT INTO leasehold.locks_grants (name, token) SELECT name, n FROM n;
    INSERT INTO leasehold.locks_withdrawn SELECT gen_random_uuid(), now() + interval '1 hour' FROM n;
    INSERT INTO leasehold.locks_runs SELECT name, 'monday', 1, now() + interval '1 day' FROM n;
    INSERT INTO leasehold.locks_fences SELECT name, 1 FROM n;
    INSERT INTO leasehold.locks_queue (owner, name, ttl_ms, label, seen_at)
        SELECT gen_random_uuid(), name, 1000, '', now() FROM n;
    INSERT INTO leasehold.locks_holders (owner, name, token, slots, label, expires_at)
        SELECT gen_random_uuid(), name, n, '{}', '', now() + interval '1 hour' FROM n;
    ANALYZE leasehold.locks, leasehold.locks_grants, leasehold.locks_withdrawn, leasehold.locks_runs,
        leasehold.locks_fences, leasehold.locks_queue, leasehold.locks_holders;
";

/// C17: a request takes as long with many locks, waiters, marks and records as with few. The server counts the scans,
/// also those within functions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_no_request_reads_a_whole_table() {
    let server = PostgresServer::start_with(&["autovacuum=off"]).await;
    let lock = PostgresBackend::connect(&server.url()).await.expect("a connection");
    server.psql(FILL);
    server.psql("SELECT pg_stat_reset()");
    use_all(&server.url()).await;
    use_the_rest(&server, &lock).await;
    for _ in 0..2 {
        server.psql("SELECT leasehold.locks_v1_forget_unused()");
    }
    drop(lock);
    // A session reports its counts when it ends.
    eventually("the sessions have ended", LIMIT, async || sessions(&server) == 0).await;
    let of_ours = "FROM pg_stat_user_tables WHERE schemaname = 'leasehold'";
    let used = format!("SELECT count(*) {of_ours} AND idx_scan > 0");
    eventually("the scans are counted", LIMIT, async || number(&server, &used) == 7).await;
    // A scan of a whole index is none of the table. The sweeps read a page of locks, of some hundred rows.
    let read = format!(
        "SELECT relname, seq_scan, idx_tup_fetch {of_ours} AND (seq_scan > 0 OR idx_tup_fetch > 10000)"
    );
    assert_eq!(server.psql(&read), "", "these tables were read as a whole");
}

/// Uses what `use_all` leaves out: batches, several locks, withdrawals, records of runs, reservations, fences.
async fn use_the_rest(server: &PostgresServer, lock: &PostgresBackend) {
    let locks = LockClient::new(lock.clone());
    let names = [fresh_name(), fresh_name(), fresh_name()];
    locks.acquire_all(&names).await.expect("free").release().await.expect("held to the end");
    let turns = names.iter().map(|name| async { released(held(&locks, name).await).await });
    futures_util::future::join_all(turns).await;

    let [name, job, _] = &names;
    let guard = held(&locks, name).await;
    let rival = client(&server.url()).await;
    let given_up = tokio::time::timeout(Duration::from_millis(50), rival.acquire(patient(name)));
    assert!(given_up.await.is_err(), "it is held");
    let claim = patient(name).claim().expect("a good claim");
    lock.withdraw(&claim.name, &[claim.owner]).await.expect("an answer");
    lock.fence(name).advance(guard.token()).await.expect("the newest");
    lock.fence(name).seen().await.expect("an answer");
    // Tasks of one client pass the lock on, under tokens that the server reserved.
    let waiting = crate::support::queued(&locks, &locks, patient(name), name).await;
    released(guard).await;
    released(crate::support::served(waiting).await).await;

    let once = locks.once(job.as_str()).occurrence("monday").at_least(MINUTE);
    assert!(once.run(async |_| ()).await.is_ok(), "it runs");
    let again = locks.once(job.as_str()).occurrence("monday").run(async |_| ()).await;
    assert!(again.is_ok(), "it has run");
    assert_eq!(locks.admin().runs(job.as_str()).await.expect("an answer").len(), 1);
    locks.admin().forget(job.as_str(), "monday").await.expect("an answer");
    locks.admin().list("n3999", 1000).await.expect("a listing");
}
