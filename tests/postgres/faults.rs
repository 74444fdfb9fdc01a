//! Dead, stopped and crashed servers, terminated sessions, and networks that swallow.

use std::time::{Duration, Instant};

use leasehold::postgres::PostgresLock;
use leasehold::{LockClient, LockError, LockGuard, LockRequest, LostReason, Release, Wait};
use test_support::{Mode, PostgresServer, Proxy, eventually};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::{LIMIT, MINUTE, REQUEST_TIMEOUT, SLACK, client, fresh_name, patient, shared};

type Waiting = JoinHandle<Result<LockGuard, LockError>>;

fn through(proxy: &Proxy) -> String {
    format!("postgres://postgres@{}/postgres", proxy.addr())
}

fn is_free(server: &PostgresServer, name: &str) -> bool {
    let held = "owner IS NOT NULL AND expires_at > clock_timestamp()";
    let count = format!("SELECT count(*) FROM leasehold.locks WHERE name = '{name}' AND {held}");
    server.psql(&count) == "0"
}

async fn until_free(server: &PostgresServer, name: &str) {
    eventually("the lock is free", LIMIT, async || is_free(server, name)).await;
}

/// A waiter that has its place in the queue.
async fn queued(holder: &LockClient, waiter: &LockClient, name: &str) -> Waiting {
    let (waiter, request) = (waiter.clone(), patient(name));
    let waiting = tokio::spawn(async move { waiter.acquire(request).await });
    eventually("it queues", LIMIT, async || {
        holder.inspect(name).await.expect("an answer").waiters == Some(1)
    })
    .await;
    waiting
}

async fn served(waiting: Waiting) {
    let next = timeout(LIMIT, waiting).await.expect("its turn comes").expect("no panic");
    next.expect("granted").release().await.expect("an answer");
}

async fn fails_in_time<T: std::fmt::Debug>(
    limit: Duration,
    call: impl Future<Output = Result<T, LockError>>,
) {
    let asked = Instant::now();
    let failed = call.await;
    let took = asked.elapsed();
    assert!(failed.is_err(), "{failed:?} without a server");
    assert!(took < limit + Duration::from_millis(100) + SLACK, "{took:?} at a limit of {limit:?}");
}

async fn every_call_fails_in_time(client: &LockClient, held: LockGuard) {
    let name = fresh_name();
    let request = |wait| LockRequest::new(&name).ttl(MINUTE).wait(wait);
    let short = Duration::from_millis(300);
    fails_in_time(short, client.acquire(request(Wait::AtMost(short)))).await;
    fails_in_time(REQUEST_TIMEOUT, client.acquire(request(Wait::No))).await;
    fails_in_time(REQUEST_TIMEOUT, client.inspect(&name)).await;
    fails_in_time(REQUEST_TIMEOUT, client.list("", 9)).await;
    fails_in_time(REQUEST_TIMEOUT, held.extend(MINUTE)).await;
    fails_in_time(REQUEST_TIMEOUT, held.release()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_a_stopped_server_delays_no_call_beyond_its_time_out() {
    let server = PostgresServer::start().await;
    let client = client(&server.url()).await;
    let guard = client.acquire(patient(&fresh_name())).await.expect("a free lock");
    let ttl = Duration::from_millis(1500);
    let short = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
    server.stop();
    let stopped = Instant::now();
    let reason = timeout(LIMIT, short.lost()).await.expect("the loss is told");
    assert_eq!(reason, LostReason::Expired);
    let took = stopped.elapsed();
    assert!(took < ttl + Duration::from_millis(50) + SLACK, "noticed after {took:?}");
    every_call_fails_in_time(&client, guard).await;
    server.cont();
    drop(client.acquire(patient(&fresh_name())).await.expect("it goes on"));
}

/// C17, C22: through a crash of the server, calls fail in time, a waiter goes on waiting, and tokens
/// go on growing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_a_crashed_server_delays_no_call_and_tokens_go_on() {
    let mut server = PostgresServer::start_with(&["fsync=on"]).await;
    let client = client(&server.url()).await;
    let guard = client.acquire(patient(&fresh_name())).await.expect("a free lock");
    let (kept, waiter) = (fresh_name(), crate::client(&server.url()).await);
    let holder = client.acquire(patient(&kept)).await.expect("a free lock");
    let waiting = queued(&client, &waiter, &kept).await;
    server.stop_immediately();
    every_call_fails_in_time(&client, guard).await;
    server.restart().await;
    let token = holder.token();
    eventually("the holder is answered again", LIMIT, async || holder.extend(MINUTE).await.is_ok())
        .await;
    assert_eq!(holder.release().await.expect("an answer"), Release::Released);
    let next = timeout(LIMIT, waiting).await.expect("its turn comes").expect("no panic");
    assert!(next.expect("granted").token() > token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_a_black_hole_delays_no_call_beyond_its_time_out() {
    let server = shared().await;
    let proxy = Proxy::start(server.addr()).await;
    let client = client(&through(&proxy)).await;
    let guard = client.acquire(patient(&fresh_name())).await.expect("a free lock");
    proxy.set(Mode::BlackHole);
    every_call_fails_in_time(&client, guard).await;
    proxy.set(Mode::Pass);
    drop(client.acquire(patient(&fresh_name())).await.expect("it goes on"));
}

/// Connections that swallow everything are given up, since new ones work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swallowing_connection_is_replaced_while_the_lock_is_held() {
    let proxy = Proxy::start(shared().await.addr()).await;
    let (client, ttl) = (client(&through(&proxy)).await, Duration::from_secs(2));
    let guard = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
    for mode in [Mode::BlackHole, Mode::SwallowReplies, Mode::SwallowRequests] {
        // Several connections, all of which are to be replaced.
        let names: Vec<String> = (0..6).map(|_| fresh_name()).collect();
        let looks = names.iter().map(|name| client.inspect(name));
        futures_util::future::join_all(looks).await;
        proxy.set_existing(mode);
        let before = guard.deadline();
        eventually("it is renewed", LIMIT, async || guard.deadline() != before).await;
        assert!(guard.is_held(), "lost behind {mode:?}");
    }
    assert_eq!(guard.release().await.expect("an answer"), Release::Released);
}

/// An operator or a limit that ends idle sessions is no error to the next call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_was_terminated_while_idle_is_no_error() {
    let server = PostgresServer::start().await;
    let client = client(&server.url()).await;
    let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
    client.acquire(patient(&fresh_name())).await.expect("free").release().await.expect("an answer");
    server.psql(terminate);
    let guard = client.try_acquire(patient(&fresh_name())).await.expect("no error").expect("free");
    server.psql(terminate);
    assert_eq!(guard.release().await.expect("an answer"), Release::Released);
}

/// C15, C19: whose reply was lost, is taken back: at once, though the TTL is a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_an_acquire_whose_reply_was_lost_is_taken_back() {
    let server = shared().await;
    let proxy = Proxy::start(server.addr()).await;
    let (client, name) = (client(&through(&proxy)).await, fresh_name());
    client.inspect(&name).await.expect("an answer");
    proxy.set(Mode::SwallowReplies);
    let failed = client.acquire(LockRequest::new(&name).ttl(MINUTE).wait(Wait::No)).await;
    let Err(LockError::Backend { source, .. }) = failed else {
        panic!("no reply came through, and we were told {failed:?}");
    };
    assert!(source.is_transient(), "{source:?}");
    assert!(!is_free(server, &name), "the request was to be applied");
    proxy.set(Mode::Pass);
    proxy.cut();
    until_free(server, &name).await;
}

/// C15: the driver takes the end of a connection amid the handshake for another protocol; it is a
/// failure of the network, and worth another try.
#[tokio::test]
async fn c15_a_connection_that_ends_amid_the_handshake_is_a_passing_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("postgres://postgres@{}/", listener.local_addr().expect("an address"));
    let hangs_up = async {
        let (mut peer, _) = listener.accept().await.expect("a peer");
        // All that was sent is read, else the end would be a reset.
        peer.read_exact(&mut [0; 8]).await.expect("a request for TLS");
    };
    let (connected, ()) = tokio::join!(PostgresLock::connect(&url), hangs_up);
    let Err(LockError::Backend { source, .. }) = connected else {
        panic!("nobody was there, and we were told {connected:?}");
    };
    assert!(source.is_transient(), "{source:?}");
}

/// C19: a stopped server applies what was sent to it before it hears that the sender gave up; the
/// request of a claim that was withdrawn meanwhile must not take the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_ghost_of_a_stopped_server_takes_nothing() {
    let server = PostgresServer::start().await;
    let client = client(&server.url()).await;
    let names: Vec<String> = (0..8).map(|_| fresh_name()).collect();
    let looks = names.iter().map(|name| client.inspect(name));
    futures_util::future::join_all(looks).await;
    server.stop();
    let acquiring = names.iter().map(|name| {
        let request = LockRequest::new(name).ttl(MINUTE).wait(Wait::AtMost(SLACK));
        client.acquire(request)
    });
    for failed in futures_util::future::join_all(acquiring).await {
        assert!(failed.is_err(), "{failed:?} from a stopped server");
    }
    server.cont();
    client.shutdown().await;
    for name in &names {
        until_free(&server, name).await;
        assert!(is_free(&server, name));
    }
}

/// C28: with the listening session gone, a waiter still gets in, and the session comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_dead_listening_session_costs_at_most_a_poll() {
    let server = PostgresServer::start().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    for _ in 0..3 {
        let name = fresh_name();
        let guard = holder.acquire(patient(&name)).await.expect("a free lock");
        let waiting = queued(&holder, &waiter, &name).await;
        server.psql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'");
        let released = Instant::now();
        guard.release().await.expect("an answer");
        served(waiting).await;
        let took = released.elapsed();
        assert!(took < Duration::from_secs(1) + SLACK, "served after {took:?}");
    }
}

/// C28: a grant that is pushed into a black hole is missed; the poll finds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_missed_push_costs_at_most_a_poll() {
    let server = shared().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, waiter) = (client(&server.url()).await, client(&through(&proxy)).await);
    let name = fresh_name();
    let guard = holder.acquire(patient(&name)).await.expect("a free lock");
    let waiting = queued(&holder, &waiter, &name).await;
    proxy.set_existing(Mode::BlackHole);
    let released = Instant::now();
    guard.release().await.expect("an answer");
    served(waiting).await;
    // One poll that the black hole swallows, and one on a new connection.
    let took = released.elapsed();
    assert!(took < Duration::from_secs(3) + SLACK, "served after {took:?}");
}

/// C28: a waiter that cannot open a listening session polls, and keeps its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_waiter_without_a_listening_session_polls() {
    let server = shared().await;
    let holder = client(&server.url()).await;
    let proxy = Proxy::start(server.addr()).await;
    let waiter = client(&through(&proxy)).await;
    waiter.inspect("x").await.expect("an answer");
    // The connection for requests works, and no further one does.
    proxy.set(Mode::BlackHole);
    proxy.set_existing(Mode::Pass);
    let name = fresh_name();
    let guard = holder.acquire(patient(&name)).await.expect("a free lock");
    let waiting = queued(&holder, &waiter, &name).await;
    tokio::time::sleep(REQUEST_TIMEOUT * 3).await;
    let released = Instant::now();
    guard.release().await.expect("an answer");
    served(waiting).await;
    assert!(released.elapsed() < Duration::from_secs(1) + SLACK, "{:?}", released.elapsed());
}

/// A transaction of somebody else's that keeps the row busy is an error that passes, not a grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_others_keep_busy_is_a_typed_error() {
    let server = shared().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    client.acquire(patient(&name)).await.expect("free").release().await.expect("an answer");
    let mut pest =
        <sqlx::PgConnection as sqlx::Connection>::connect(&server.url()).await.expect("in");
    let lock = format!("BEGIN; SELECT 1 FROM leasehold.locks WHERE name = '{name}' FOR UPDATE");
    sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut pest).await.expect("locked");
    fails_in_time(REQUEST_TIMEOUT, client.acquire(LockRequest::new(&name).wait(Wait::No))).await;
    drop(pest);
    let guard = client.acquire(patient(&name)).await.expect("it goes on");
    guard.release().await.expect("an answer");
}

/// A lock whose first user's runtime is gone works on another, with waiters and all.
#[test]
fn c09_a_lock_outlives_the_runtime_it_was_first_used_on() {
    let new = || tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build();
    let (first, second) = (new().expect("a runtime"), new().expect("a runtime"));
    let server = second.block_on(PostgresServer::start());
    let lock = first.block_on(leasehold::postgres::PostgresLock::connect(&server.url()));
    let lock = lock.expect("a connection");
    let exchange = async |lock: &leasehold::postgres::PostgresLock| {
        let clients = [(); 2].map(|()| crate::client_of(lock.clone()));
        let guard = clients[0].acquire(patient("x")).await.expect("a free lock");
        let (released, next) = tokio::join!(
            async {
                eventually("it queues", LIMIT, async || {
                    clients[0].inspect("x").await.is_ok_and(|state| state.waiters == Some(1))
                })
                .await;
                guard.release().await
            },
            clients[1].acquire(patient("x"))
        );
        released.expect("an answer");
        next.expect("its turn comes").release().await.expect("an answer");
    };
    first.block_on(exchange(&lock));
    drop(first);
    second.block_on(exchange(&lock));
    second.shutdown_background();
    // Outside of any runtime.
    drop(lock);
}

/// C28: a client that is gone is passed over at once: its session is seen to have ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_client_that_is_gone_costs_nothing() {
    let server = shared().await;
    let (holder, next, name) =
        (client(&server.url()).await, client(&server.url()).await, fresh_name());
    let guard = holder.acquire(patient(&name)).await.expect("a free lock");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (url, request) = (server.url(), patient(&name));
    runtime.spawn(async move { client(&url).await.acquire(request).await.map(LockGuard::detach) });
    let waiters = async |count| {
        eventually("it queues", LIMIT, async || {
            holder.inspect(&name).await.expect("an answer").waiters == Some(count)
        })
        .await;
    };
    waiters(1).await;
    let waiting = tokio::spawn({
        let request = patient(&name);
        async move { next.acquire(request).await }
    });
    waiters(2).await;
    runtime.shutdown_background();
    let session = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND \
         (classid::bigint << 32 | objid::bigint) IN (SELECT listener FROM leasehold.locks_queue \
         WHERE name = ";
    let alive = format!("{session}'{name}')");
    eventually("its session has ended", LIMIT, async || server.psql(&alive) == "1").await;
    let released = Instant::now();
    guard.release().await.expect("an answer");
    served(waiting).await;
    // The liveness bound would be three seconds, a poll one.
    assert!(
        released.elapsed() < Duration::from_millis(600),
        "served after {:?}",
        released.elapsed()
    );
}
