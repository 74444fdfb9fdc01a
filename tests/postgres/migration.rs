//! Making the schema beside other clients, and servers that become silent during `connect`.

use std::time::{Duration, Instant};

use leasehold::LockError;
use leasehold::postgres::{PostgresBackend, PostgresOptions};
use lock_testkit::{PostgresServer, eventually};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::server::number;
use crate::support::{LIMIT, SLACK, shown, works};

/// Takes the lock of a migration.
const LOCK: &str = "SELECT pg_advisory_lock(5508217395121431910)";
const UNLOCK: &str = "SELECT pg_advisory_unlock(5508217395121431910)";

/// Longest time that connecting may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

async fn migrator(server: &PostgresServer) -> PgConnection {
    let mut session = PgConnection::connect(&server.url()).await.expect("a connection");
    session.execute(LOCK).await.expect("nobody migrates");
    session
}

/// Returns the error of a connection that could not be made; it arrives in time.
async fn failure(url: &str) -> String {
    let asked = Instant::now();
    let error = PostgresBackend::connect(url).await.expect_err("it cannot be done");
    assert!(asked.elapsed() < CONNECT_WITHIN + SLACK, "told after {:?}", asked.elapsed());
    let LockError::Backend { source, .. } = &error else { panic!("{error:?}") };
    assert!(source.is_transient(), "{source:?}");
    shown(&error)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_a_stuck_migration_of_another_is_not_waited_for_for_ever() {
    let server = PostgresServer::start().await;
    let stuck = migrator(&server).await;
    let text = failure(&server.url()).await;
    assert!(text.contains("blocked the making of the schema"), "{text}");
    drop(stuck);
    works(&leasehold::connect(&server.url()).await.expect("it goes on")).await;
}

/// Accepts two connections of a client, and then stays silent.
async fn fall_silent(listener: TcpListener) -> [TcpStream; 2] {
    [let_in(&listener).await, let_in(&listener).await]
}

async fn let_in(listener: &TcpListener) -> TcpStream {
    let (mut peer, _) = listener.accept().await.expect("a peer");
    let mut length = peer.read_u32().await.expect("a greeting");
    if length == 8 {
        // A driver with TLS asks for it first.
        peer.read_u32().await.expect("a request for TLS");
        peer.write_all(b"N").await.expect("refused");
        length = peer.read_u32().await.expect("a greeting");
    }
    peer.read_exact(&mut vec![0; length as usize - 4]).await.expect("its rest");
    // Answers that the client is accepted, and that the server is ready.
    peer.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await.expect("let in");
    peer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_a_server_that_falls_silent_is_not_waited_for_for_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("postgres://postgres@{}/", listener.local_addr().expect("an address"));
    let silent = tokio::spawn(fall_silent(listener));
    let text = failure(&url).await;
    assert!(text.contains("looking for a pooler"), "{text}");
    drop(silent.await.expect("it let us in"));
}

/// A client that arrives while another one makes the schema finds it made, and needs no right to make it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_migrator_has_nothing_to_do() {
    let server = PostgresServer::start().await;
    server.psql("CREATE ROLE late LOGIN; GRANT CREATE ON DATABASE postgres TO late");
    let mut first = migrator(&server).await;
    let url = server.url_as("late", "postgres");
    let late = tokio::spawn({
        let url = url.clone();
        async move { PostgresBackend::connect(&url).await }
    });
    let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    eventually("it waits", LIMIT, async || number(&server, waits) == 1).await;
    let script = PostgresOptions::new(server.url()).schema_sql().expect("good names");
    first.execute(sqlx::raw_sql(AssertSqlSafe(script))).await.expect("made");
    let grants = "GRANT USAGE ON SCHEMA leasehold TO late; \
         GRANT EXECUTE ON ALL ROUTINES IN SCHEMA leasehold TO late";
    first.execute(sqlx::raw_sql(grants)).await.expect("granted");
    first.execute(UNLOCK).await.expect("done");
    late.await.expect("no panic").expect("nothing to do");
    works(&leasehold::connect(&url).await.expect("let in")).await;
}

/// A reader of the view of holds, whose transaction stays open, does not keep the script from running again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_script_does_not_wait_for_readers_of_the_view() {
    let server = PostgresServer::start().await;
    let script = PostgresOptions::new(server.url()).schema_sql().expect("good names");
    server.psql(&script);
    let mut reader = PgConnection::connect(&server.url()).await.expect("a connection");
    reader.execute("BEGIN").await.expect("begun");
    reader.execute("SELECT FROM leasehold.locks_holds").await.expect("read");
    server.psql(&script);
    drop(reader);
}

/// C15: an event trigger that fails, since its names depend on a search_path, is not taken for a missing schema.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_an_event_trigger_that_fails_is_told() {
    let server = PostgresServer::start().await;
    server.psql(
        "CREATE TABLE public.audit (what text); \
         CREATE FUNCTION public.note() RETURNS event_trigger LANGUAGE plpgsql AS \
         $$ BEGIN INSERT INTO audit VALUES (tg_tag); END $$; \
         CREATE EVENT TRIGGER note ON ddl_command_end EXECUTE FUNCTION public.note()",
    );
    let text = shown(&PostgresBackend::connect(&server.url()).await.expect_err("it fails"));
    assert!(text.contains("event trigger") && text.contains("audit"), "{text}");
    assert!(!text.contains("of another format"), "{text}");
}
