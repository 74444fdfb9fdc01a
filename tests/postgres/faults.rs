//! Dead, stopped and deaf servers, terminated sessions, and networks that lose data.

use std::time::{Duration, Instant};

use leasehold::postgres::PostgresBackend;
use leasehold::{LockError, LockGuard, LockRequest, Outcome, Wait};
use lock_testkit::{Mode, PostgresServer, Proxy, eventually};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use crate::server::{PostgresFaults, shared};
use crate::support::{
    LIMIT, REQUEST_TIMEOUT, SLACK, a_silent_waiter_keeps_its_place, acquiring, client,
    client_through, fails_in_time, fresh_name, held, impatient, patient, queued, released, served,
    served_within, shown, turn, until_waiting,
};

lock_testkit::test_faults!(PostgresFaults);

/// C27: if its turn does not come meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_waiter_that_was_silent_keeps_its_place() {
    a_silent_waiter_keeps_its_place::<PostgresFaults>(|server| {
        server.psql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'");
    })
    .await;
}

/// C28: without the listening session a waiter still gets in, and the session is opened again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_dead_listening_session_costs_at_most_a_poll() {
    let server = PostgresServer::start().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    for _ in 0..3 {
        let name = fresh_name();
        let guard = held(&holder, &name).await;
        let waiting = queued(&waiter, &holder, patient(&name), &name).await;
        server.psql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'");
        served_within(Duration::from_secs(1) + SLACK, guard, waiting).await;
    }
}

/// C27: a waiter that cannot open a listening session still has its place in the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_waiter_without_a_listening_session_keeps_its_place() {
    let server = shared().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, waiter, name) =
        (client(&server.url()).await, client_through::<PostgresFaults>(&proxy).await, fresh_name());
    waiter.admin().inspect(&name).await.expect("an answer");
    proxy.set(Mode::BlackHole);
    proxy.set_existing(Mode::Pass);
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    served_within(Duration::from_secs(1) + SLACK, guard, waiting).await;
}

/// An operator or a limit that ends idle sessions causes no error in the next call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_was_terminated_while_idle_is_no_error() {
    let server = PostgresServer::start().await;
    let client = client(&server.url()).await;
    let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
    turn(&client, &fresh_name()).await;
    server.psql(terminate);
    let guard = client.try_acquire(patient(&fresh_name())).await.expect("no error").expect("free");
    server.psql(terminate);
    released(guard).await;
}

/// C15: the driver reports the end of a connection during the handshake as a protocol error. It is a network
/// failure, which may be retried.
#[tokio::test]
async fn c15_a_connection_that_ends_amid_the_handshake_is_a_passing_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("postgres://postgres@{}/", listener.local_addr().expect("an address"));
    let hangs_up = async {
        let (mut peer, _) = listener.accept().await.expect("a peer");
        // Reads all sent data, since the connection would otherwise be reset.
        peer.read_exact(&mut [0; 8]).await.expect("a request for TLS");
    };
    let (connected, ()) = tokio::join!(PostgresBackend::connect(&url), hangs_up);
    let Err(LockError::Backend { source, .. }) = connected else {
        panic!("nobody was there, and we were told {connected:?}");
    };
    assert!(source.is_transient(), "{source:?}");
}

/// While another transaction keeps the row locked, an attempt ends with a transient error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_others_keep_busy_is_a_typed_error() {
    let server = shared().await;
    let (client, name) = (impatient(&server.url()).await, fresh_name());
    turn(&client, &name).await;
    let mut stranger =
        <sqlx::PgConnection as sqlx::Connection>::connect(&server.url()).await.expect("in");
    let lock = format!("BEGIN; SELECT 1 FROM leasehold.locks WHERE name = '{name}' FOR UPDATE");
    sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut stranger).await.expect("locked");
    let request = LockRequest::new(&name).wait(Wait::Never);
    fails_in_time::<PostgresFaults>(REQUEST_TIMEOUT, client.acquire(request.clone())).await;
    // The server answers before the client gives up, unless the client first needs a new session.
    eventually("the reason is told", LIMIT, async || {
        let refused = client.acquire(request.clone()).await.expect_err("the row is busy");
        shown(&refused).contains("others used the same row")
    })
    .await;
    drop(stranger);
    turn(&client, &name).await;
}

/// C28: a client that is gone is passed over at once: the end of its session is seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_client_that_is_gone_costs_nothing() {
    for _ in 0..8 {
        // The liveness bound would be three seconds, and a poll one. A pause of the machine costs a round.
        if served_behind_one_that_is_gone().await < Duration::from_millis(700) {
            return;
        }
    }
    panic!("the next one waits for more than the end of a session");
}

/// Returns the time from a release until the waiter behind a client that is gone holds the lock.
async fn served_behind_one_that_is_gone() -> Duration {
    let server = shared().await;
    let (holder, next, name) =
        (client(&server.url()).await, client(&server.url()).await, fresh_name());
    let guard = held(&holder, &name).await;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (url, request) = (server.url(), patient(&name));
    runtime.spawn(async move { client(&url).await.acquire(request).await.map(LockGuard::detach) });
    until_waiting(&holder, &name, 1).await;
    let waiting = acquiring(&next, patient(&name));
    until_waiting(&holder, &name, 2).await;
    runtime.shutdown_background();
    let session = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND \
         (classid::bigint << 32 | objid::bigint) IN (SELECT \
         leasehold.locks_v1_listener_key(listener) FROM leasehold.locks_queue WHERE name = ";
    let alive = format!("{session}'{name}')");
    eventually("its session has ended", LIMIT, async || server.psql(&alive) == "1").await;
    let start = Instant::now();
    released(guard).await;
    let next = served(waiting).await;
    let took = start.elapsed();
    released(next).await;
    took
}

/// C28: a waiter whose session was cut is passed over, since it may be dead, and keeps its place, since it may
/// return.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_waiter_whose_session_was_cut_is_passed_over_and_keeps_its_place() {
    let (server, name) = (shared().await, fresh_name());
    drop(client(&server.url()).await);
    let owner = |n: u32| format!("'00000000-0000-0000-{n:04}-{:012}'", std::process::id());
    let call = |function: &str, n, rest: &str| {
        let call = format!("leasehold.locks_v1_{function}('{name}', {}{rest})", owner(n));
        let what = if function == "acquire" { "ahead" } else { "*" };
        server.psql(&format!("SELECT {what} FROM {call}"))
    };
    let queued_at = |n, listener: &str| {
        let rest = format!(", 60000, '', NULL, 0, true, {listener}, 9007199254740991");
        call("acquire", n, &rest)
    };
    let limit = ", 9007199254740991";
    queued_at(1, "NULL");
    // No session holds the lock of this channel.
    assert_eq!(queued_at(2, "42"), "0");
    assert_eq!(queued_at(3, "NULL"), "1");
    call("release", 1, limit);
    let holder =
        || server.psql(&format!("SELECT owner FROM leasehold.locks_grants WHERE name = '{name}'"));
    assert_eq!(
        format!("'{}'", holder()),
        owner(3),
        "a waiter that may be dead holds up the others"
    );
    // The waiter has returned, and is still the first.
    assert_eq!(queued_at(4, "NULL"), "1");
    assert_eq!(queued_at(2, "NULL"), "0", "it lost its place");
    call("release", 3, limit);
    assert_eq!(format!("'{}'", holder()), owner(2), "it lost its place");
    let owners = [owner(2), owner(4)].join(", ");
    let withdraw = format!("'{name}', ARRAY[{owners}]::uuid[]{limit}");
    server.psql(&format!("SELECT leasehold.locks_v1_withdraw({withdraw})"));
}

/// C15: the release may have been committed although its message was refused. A retry may help.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_full_queue_of_messages_is_a_passing_failure() {
    let server = PostgresServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    turn(&client, &name).await;
    server.psql(
        "CREATE FUNCTION full_queue() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         RAISE EXCEPTION 'too many notifications in the NOTIFY queue' USING ERRCODE = '54000'; END $$; \
         CREATE TRIGGER full_queue BEFORE UPDATE ON leasehold.locks_grants \
         FOR EACH ROW EXECUTE FUNCTION full_queue()",
    );
    let refused = client.acquire(LockRequest::new(&name).wait(Wait::Never)).await;
    let Err(LockError::Backend { source, .. }) = refused else { panic!("{refused:?}") };
    assert!(source.is_transient() && source.outcome() == Outcome::Unknown, "{source:?}");
    server.psql("DROP TRIGGER full_queue ON leasehold.locks_grants");
    turn(&client, &name).await;
}

/// C20: a client that keeps its session after a wait may be dropped on any thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c20_a_client_that_waited_may_be_dropped_outside_a_runtime() {
    let (server, name) = (PostgresServer::start().await, fresh_name());
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    released(guard).await;
    released(waiting.await.expect("no panic").expect("granted")).await;
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    eventually("the session is kept", LIMIT, async || server.psql(locks) == "0").await;
    std::thread::spawn(move || drop(waiter)).join().expect("no panic outside a runtime");
}
