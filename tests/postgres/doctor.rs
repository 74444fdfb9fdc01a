//! C31: findings of the doctor on real servers.

use leasehold::admin::Health;
use leasehold::{LockRequest, Wait};
use lock_testkit::{PgBouncer, PostgresServer};

use sqlx::{Connection, Executor, PgConnection};

use crate::support::{
    client, finding, fresh_name, held, patient, queued, refusal, released, served, shown, turn,
};

const SAFE: [&str; 2] = ["fsync=on", "full_page_writes=on"];

/// Returns the findings that are not good.
async fn ills(url: &str) -> Vec<(&'static str, Health)> {
    let findings = client(url).await.admin().doctor().await.expect("an answer");
    let ill = findings.into_iter().filter(|finding| finding.health != Health::Good);
    ill.map(|finding| (finding.check, finding.health)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_what_endangers_locks_is_named() {
    let server = PostgresServer::start_with(&SAFE).await;
    assert_eq!(ills(&server.url()).await, []);
    let pooler = PgBouncer::start(&server).await;
    assert_eq!(ills(&pooler.url()).await, [("pooler", Health::Risk)]);

    server.psql("ALTER SYSTEM SET synchronous_commit = off");
    server.psql("SELECT pg_reload_conf()");
    assert_eq!(ills(&server.url()).await, [("durability", Health::Risk)]);

    let client = client(&server.url()).await;
    server.psql("DROP FUNCTION leasehold.locks_v1_withdraw");
    let schema = finding(&client, "schema").await;
    assert!(schema.to_string().contains("leasehold schema postgres"), "{schema}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_standby_is_named() {
    let server = PostgresServer::start_with(&SAFE).await;
    drop(client(&server.url()).await);
    let standby = server.standby().await;
    assert_eq!(
        ills(&standby.url()).await,
        [("role", Health::Risk), ("schema", Health::Unknown), ("queue", Health::Unknown)]
    );
}

/// Returns the doctor's finding of one check.
async fn seen(url: &str, check: &str) -> (Health, String) {
    let seen = finding(&client(url).await, check).await;
    (seen.health, seen.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_commits_that_do_not_wait_for_synchronous_standbys_are_named() {
    let local = ["synchronous_commit=local", "synchronous_standby_names=nobody"];
    let server = PostgresServer::start_with(&[SAFE.as_slice(), &local].concat()).await;
    let (health, text) = seen(&server.url(), "durability").await;
    assert!(health == Health::Risk && text.contains("synchronous_commit is local"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_the_oldest_snapshot_is_named() {
    let server = PostgresServer::start_with(&SAFE).await;
    let (health, text) = seen(&server.url(), "snapshot").await;
    assert!(health == Health::Good && text.contains("no other session"), "{text}");
    let mut report = PgConnection::connect(&server.url()).await.expect("a connection");
    report.execute("SET application_name = 'night report'").await.expect("set");
    let mut open = report.begin().await.expect("begun");
    open.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await.expect("set");
    open.execute("SELECT 1").await.expect("a snapshot");
    let (health, text) = seen(&server.url(), "snapshot").await;
    assert!(health == Health::Good && text.contains("night report"), "{text}");
    open.rollback().await.expect("rolled back");
}

/// C27: logical replication carries no sequences; after a switchover by it, the script corrects the places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_places_that_are_behind_are_named_and_the_script_puts_them_right() {
    let server = PostgresServer::start_with(&SAFE).await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    let pass = async || {
        let guard = held(&holder, &name).await;
        let waiting = queued(&waiter, &holder, patient(&name), &name).await;
        released(guard).await;
        released(served(waiting).await).await;
    };
    for _ in 0..3 {
        pass().await;
    }
    assert_eq!(seen(&server.url(), "queue").await.0, Health::Good);
    server.psql("ALTER SEQUENCE leasehold.locks_queue_place_seq RESTART");
    let (health, text) = seen(&server.url(), "queue").await;
    assert!(health == Health::Risk && text.contains("leasehold schema postgres"), "{text}");
    server.psql(&crate::rights::script(&server));
    assert_eq!(seen(&server.url(), "queue").await.0, Health::Good);
    pass().await;
}

/// C15, C31: if somebody turned writes off, no locks are granted, and the error and the doctor name the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_server_where_writes_are_off_by_default_is_named() {
    const NAMED: &str = "default_transaction_read_only";
    let server = PostgresServer::start_with(&SAFE).await;
    server.psql("ALTER DATABASE postgres SET default_transaction_read_only = on");
    let text = refusal(&server.url()).await;
    assert!(text.contains(NAMED), "{text}");
    let writes = format!("{}?options[{NAMED}]=off", server.url());
    turn(&client(&writes).await, &fresh_name()).await;
    let frozen = client(&server.url()).await;
    let refused = frozen.acquire(LockRequest::new(fresh_name()).wait(Wait::Never)).await;
    let text = shown(&refused.expect_err("it takes no writes"));
    assert!(text.contains(NAMED), "{text}");
    let (health, text) = seen(&server.url(), "role").await;
    assert!(health == Health::Risk && text.contains(NAMED), "{text}");
}

/// C3: with requests as text, or if the user may not turn it off, the log contains owner ids.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_log_that_holds_owner_ids_is_named() {
    let logged = ["log_min_duration_statement=0"];
    let server = PostgresServer::start_with(&[SAFE.as_slice(), &logged].concat()).await;
    let pooler = PgBouncer::start(&server).await;
    // The owner of the server keeps values out of the log for itself.
    assert_eq!(seen(&server.url(), "logging").await.0, Health::Good);
    let (health, text) = seen(&pooler.url(), "logging").await;
    assert!(health == Health::Risk && text.contains("pooler"), "{text}");
    server.psql("CREATE ROLE app LOGIN");
    crate::security::let_in(&server, "app");
    let app = server.url_as("app", "postgres");
    let (health, text) = seen(&app, "logging").await;
    assert!(health == Health::Risk && text.contains("log_parameter_max_length"), "{text}");
    server.psql("ALTER ROLE app SET log_parameter_max_length = 0");
    assert_eq!(seen(&app, "logging").await.0, Health::Good);
}

/// C31: a pool of sessions that has none left to listen is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_pool_without_a_session_to_listen_is_named() {
    let server = PostgresServer::start().await;
    drop(client(&server.url()).await);
    let settings = ["pool_mode = session", "default_pool_size = 3"];
    let pooler = PgBouncer::start_with(&server, &settings).await;
    let mut other = PgConnection::connect(&pooler.url()).await.expect("a connection");
    other.execute("SELECT 1").await.expect("a session");
    let client = client(&pooler.url()).await;
    let listening = async || finding(&client, "listening").await;
    let seen = listening().await;
    assert_eq!(seen.health, Health::Good, "{seen}");
    let mut more = PgConnection::connect(&pooler.url()).await.expect("a connection");
    more.execute("SELECT 1").await.expect("the last session");
    let seen = listening().await;
    assert!(seen.health == Health::Risk && seen.to_string().contains("pool"), "{seen}");
    drop((other, more));
}

/// C31: in a pool of one, a renewal waits for the transactions of the job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_pool_of_one_session_is_named() {
    let server = PostgresServer::start().await;
    drop(client(&server.url()).await);
    for (size, is_named) in [(1, true), (2, false)] {
        let pooler =
            PgBouncer::start_with(&server, &[&*format!("default_pool_size = {size}")]).await;
        // As the command does it, with the default bound of a call.
        let locks = leasehold::connect(&pooler.url()).await.expect("a connection");
        let seen = finding(&locks, "pooler").await;
        assert_eq!(seen.to_string().contains("no second session"), is_named, "{seen}");
    }
}

/// C31: a user without special rights does not see the kind of other users' sessions, and counts them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_the_sessions_of_other_users_count() {
    let server = PostgresServer::start_with(&["max_connections=30"]).await;
    server.psql("CREATE ROLE app LOGIN");
    drop(client(&server.url()).await);
    crate::security::let_in(&server, "app");
    let app = server.url_as("app", "postgres");
    assert_eq!(seen(&app, "connections").await.0, Health::Good);
    let mut others = Vec::new();
    for _ in 0..19 {
        others.push(PgConnection::connect(&server.url()).await.expect("a connection"));
    }
    // Three of the free ones are reserved for superusers.
    let (health, text) = seen(&app, "connections").await;
    assert!(health == Health::Risk && text.contains("27"), "{text}");
}

/// C31: a check that takes too long is left open, and the others are made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_check_of_the_places_that_takes_long_is_left_open() {
    let server = PostgresServer::start_with(&SAFE).await;
    let locks = leasehold::connect(&server.url()).await.expect("a connection");
    server.psql(
        "CREATE OR REPLACE FUNCTION leasehold.locks_v1_places_are_behind() RETURNS boolean \
         LANGUAGE sql STABLE SECURITY DEFINER AS $$ SELECT pg_sleep(5)::text = 'x' $$",
    );
    let seen = finding(&locks, "queue").await;
    assert_eq!(seen.health, Health::Unknown, "{seen}");
}

/// C31: a prepared transaction that nobody ends keeps old versions too, and has no session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_forgotten_prepared_transaction_is_named() {
    let prepared = ["max_prepared_transactions=2"];
    let server = PostgresServer::start_with(&[SAFE.as_slice(), &prepared].concat()).await;
    drop(client(&server.url()).await);
    server.psql("BEGIN; CREATE TABLE t (); PREPARE TRANSACTION 'forgotten'");
    let (health, text) = seen(&server.url(), "snapshot").await;
    assert!(health == Health::Good && text.contains("forgotten"), "{text}");
}

/// C31: a server that grants nothing for the time being, as with a full disk, is examined to the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_server_that_takes_no_request_for_now_is_examined_to_the_end() {
    let server = PostgresServer::start_with(&SAFE).await;
    assert_eq!(seen(&server.url(), "schema").await.0, Health::Good);
    let mut other = PgConnection::connect(&server.url()).await.expect("a connection");
    other.execute("BEGIN").await.expect("begun");
    let row = "SELECT FROM leasehold.locks WHERE name = 'leasehold-doctor' FOR UPDATE";
    other.execute(row).await.expect("locked");
    let (health, text) = seen(&server.url(), "schema").await;
    assert!(health == Health::Risk && text.contains("the same row"), "{text}");
}
