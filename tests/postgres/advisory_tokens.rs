//! Tokens of advisory locks: reserved on disk ahead of their grants, which wait for no disk.

use std::time::Duration;

use leasehold::{FencingToken, LockClient, LockError, LockRequest, Wait};
use lock_testkit::PostgresServer;
use sqlx::{Connection, Executor, PgConnection};
use tokio::time::timeout;

use crate::server::number;
use crate::support::{client, fresh_name, held, patient, queued, released, served, turn};

async fn advisory(server: &PostgresServer) -> LockClient {
    client(&format!("{}?lock_mode=advisory", server.url())).await
}

/// An hour ahead of the server's clock: what tokens were told before the clock was set back.
const AHEAD: &str = "(extract(epoch FROM clock_timestamp() + interval '1 hour') * 1000000)::bigint";

/// As if tokens up to an hour ahead had been told and then forgotten.
fn set_back(server: &PostgresServer) {
    server.psql(&format!(
        "INSERT INTO leasehold.locks_advisory_grants (name, token) VALUES ('', {AHEAD})"
    ));
}

/// From now on a commit that waits for the disk waits for ever, for a standby that there is not. Sessions that may not
/// have heard of it yet are ended.
async fn let_no_commit_wait(server: &PostgresServer) {
    server.psql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server.psql("SELECT pg_reload_conf()");
    let heard = "SELECT count(*) FROM pg_settings \
                 WHERE name = 'synchronous_standby_names' AND setting = 'nobody'";
    lock_testkit::eventually("it is heard of", crate::support::LIMIT, async || {
        number(server, heard) == 1
    })
    .await;
    server.psql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
    );
}

async fn try_once(client: &LockClient, name: &str) -> Result<FencingToken, LockError> {
    let guard = client.acquire(LockRequest::new(name).wait(Wait::Never)).await?;
    let token = guard.token();
    released(guard).await;
    Ok(token)
}

/// C22: a crash forgets the last tokens; the next ones are greater all the same, also if the clock was set
/// back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_tokens_of_advisory_locks_grow_through_a_crash() {
    let forgetful =
        ["fsync=on", "full_page_writes=on", "synchronous_commit=off", "wal_writer_delay=10s"];
    let mut server = PostgresServer::start_with(&forgetful).await;
    let client = advisory(&server).await;
    let (used, unused) = (fresh_name(), fresh_name());
    for ahead in [false, true] {
        if ahead {
            set_back(&server);
        }
        let before = [turn(&client, &used).await, turn(&client, &used).await];
        assert!(before[0] < before[1]);
        server.kill();
        server.restart().await;
        let client = advisory(&server).await;
        let next = turn(&client, &used).await;
        assert!(next > before[1], "after a crash, ahead: {ahead}");
        let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        assert_eq!(next.get() > number(&server, now), ahead, "{next} is ahead of the clock");
        assert!(turn(&client, &unused).await > before[1]);
    }
}

/// C22: a token above what is reserved is on disk before it is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_token_that_is_not_reserved_waits_for_the_disk() {
    let server = PostgresServer::start().await;
    let (client, name) = (advisory(&server).await, fresh_name());
    turn(&client, &name).await;
    set_back(&server);
    let_no_commit_wait(&server).await;
    let told = timeout(Duration::from_secs(1), try_once(&client, &name)).await;
    assert!(!matches!(told, Ok(Ok(_))), "{told:?} was told before it was reserved");
}

/// A grant, a hand-over and a release whose tokens are reserved wait for no disk and no standby.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_hand_over_of_an_advisory_lock_waits_for_no_disk() {
    let server = PostgresServer::start().await;
    let (first, second, name) = (advisory(&server).await, advisory(&server).await, fresh_name());
    turn(&first, &name).await;
    server.psql("UPDATE leasehold.locks_advisory_tokens SET reserved = reserved + 3600000000");
    let_no_commit_wait(&server).await;
    let guard = held(&first, &name).await;
    let waiting = queued(&second, &first, patient(&name), &name).await;
    released(guard).await;
    released(served(waiting).await).await;
    try_once(&first, &fresh_name()).await.expect("a lock that is new");
}

/// C27: nor do they if the server logs something of its own beside them, such as a page of its catalogue that it
/// tidies up: their commits wait for nothing at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_grant_and_a_release_whose_tokens_are_reserved_commit_at_once() {
    let server = PostgresServer::start().await;
    turn(&advisory(&server).await, &fresh_name()).await;
    server.psql("UPDATE leasehold.locks_advisory_tokens SET reserved = reserved + 3600000000");
    let after = |request: &str| {
        server.psql(&format!(
            "BEGIN; SELECT FROM {request}; SELECT current_setting('synchronous_commit'); COMMIT"
        ))
    };
    let take = "leasehold.locks_advisory_v1_take('a', 7, gen_random_uuid(), 1000, '', 9007199254740991, false)";
    assert!(after(take).ends_with("off"), "a grant");
    assert!(after("leasehold.locks_advisory_v1_release('a', 7, 1)").ends_with("off"), "a release");
}

/// C22: a counter at its end is refused, and nothing is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_an_advisory_counter_at_its_end_takes_no_lock() {
    let server = PostgresServer::start().await;
    let (client, name) = (advisory(&server).await, fresh_name());
    turn(&client, &fresh_name()).await;
    server.psql(&format!(
        "INSERT INTO leasehold.locks_advisory_grants (name, token) VALUES ('{name}', 9007199254740991)"
    ));
    let refused = try_once(&client, &name).await;
    let Err(LockError::Backend { source, .. }) = refused else { panic!("{refused:?}") };
    assert!(!source.is_transient() && source.to_string().contains("counter"), "{source}");
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    lock_testkit::eventually("it is free", crate::support::LIMIT, async || {
        number(&server, held) == 0
    })
    .await;
}

/// C27: what a long transaction of somebody else makes the server keep does not slow a lock that is used all
/// the time: the newest grant is found by its key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_an_open_snapshot_does_not_slow_a_hot_advisory_lock() {
    const CYCLES: usize = 2000;
    let server = PostgresServer::start().await;
    let (client, name) = (advisory(&server).await, fresh_name());
    let mut stranger = PgConnection::connect(&server.url()).await.expect("a connection");
    let mut open = stranger.begin().await.expect("begun");
    open.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await.expect("set");
    open.execute("SELECT count(*) FROM leasehold.locks_advisory_grants").await.expect("a snapshot");
    for _ in 0..CYCLES {
        turn(&client, &name).await;
    }
    let guard = held(&client, &name).await;
    // With the settings of a session that holds locks: pages that the look for the last grant and for the one before it reads, instead of the time it takes.
    for newest in [i64::MAX, i64::try_from(guard.token().get()).expect("a small number")] {
        let explained = server.psql(&format!(
            "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; \
             EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF) \
             SELECT * FROM leasehold.locks_advisory_grants \
             WHERE name = '{name}' AND token < {newest} ORDER BY token DESC LIMIT 1"
        ));
        let read = explained.split("shared hit=").nth(1).expect("buffers are told");
        let read: usize =
            read.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
        assert!(read < 20, "{read} pages after {CYCLES} cycles:\n{explained}");
    }
    released(guard).await;
    assert_eq!(server.psql("SELECT count(*) < 10 FROM leasehold.locks_advisory_grants"), "t");
    open.rollback().await.expect("rolled back");
}

/// R4, C22: locks that nobody has used for a week go, and their next tokens are greater all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r4_advisory_locks_that_are_no_longer_used_are_forgotten() {
    let server = PostgresServer::start().await;
    let first = advisory(&server).await;
    let (used, unused) = (fresh_name(), fresh_name());
    let guard = held(&first, &used).await;
    server.psql(&format!(
        "INSERT INTO leasehold.locks_advisory_grants (name, token) VALUES ('{unused}', 1000000)"
    ));
    drop(advisory(&server).await);
    let names = "SELECT string_agg(DISTINCT name, ',') FROM leasehold.locks_advisory_grants \
         WHERE name <> ''";
    assert_eq!(server.psql(names), used);
    let floor = "SELECT max(token) FROM leasehold.locks_advisory_grants WHERE name = ''";
    assert!(number(&server, floor) >= 1_000_000);
    released(guard).await;
}
