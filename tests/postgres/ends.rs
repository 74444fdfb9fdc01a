//! Holds that end with their client's connection.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::core::OwnerId;
use leasehold::core::backend::{DistributedLockExt, Extension, Renewal};
use leasehold::postgres::PostgresBackend;
use leasehold::{LockClient, LockError, LockGuard, LockRequest, LostReason, Ttl};
use lock_testkit::process::signal;
use lock_testkit::{LeaseExt, Mode, PgBouncer, PostgresServer, Proxy, child, eventually};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::time::timeout;

use crate::server::{number, sessions, shared, url_at};
use crate::support::{
    LIMIT, MINUTE, SLACK, client, fresh_name, held, patient, queued, released, served, turn,
};

/// Time for which a hold lasts after its client's session was seen to be gone.
const GRACE: Duration = Duration::from_secs(3);

/// Longest pause between two looks of a waiter.
const LOOK: Duration = Duration::from_secs(1);

fn ending(url: &str) -> String {
    format!("{url}?ends_with=connection")
}

pub(crate) async fn ends(url: &str) -> LockClient {
    client(&ending(url)).await
}

/// Ends the sessions of the clients whose holds end with their connection.
fn terminate(server: &PostgresServer) {
    server.psql(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND \
         (classid::bigint << 32 | objid::bigint) IN (SELECT session FROM leasehold.locks_grants \
         UNION SELECT session FROM leasehold.locks_holders)",
    );
}

/// Waits until the holder knows that its connection is gone.
async fn disconnected(guard: &LockGuard) {
    let reason = timeout(LIMIT, guard.lost()).await.expect("it is seen");
    assert_eq!(reason, LostReason::Disconnected);
}

/// Role of a child process: acquires the lock and keeps it until it is killed.
pub(crate) async fn hold() {
    let url = std::env::var("LOCK_URL").expect("a URL");
    let name = std::env::var("LOCK_NAME").expect("a name");
    let ttl = std::env::var("LOCK_TTL").expect("a TTL").parse().expect("seconds");
    let client = ends(&url).await;
    let request = patient(&name).ttl(Duration::from_secs(ttl));
    let guard = client.acquire(request).await.expect("a free lock");
    child::say(&guard.token().to_string());
    std::future::pending::<()>().await;
}

async fn holder(server: &PostgresServer, name: &str, ttl: &str) -> child::Child {
    let role = [("LOCK_URL", &*server.url()), ("LOCK_NAME", name), ("LOCK_TTL", ttl)];
    let mut holder = child::spawn("holder that ends with its connection", &role);
    holder.line().await;
    holder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_a_transaction_pooler_is_refused() {
    let server = PostgresServer::start().await;
    let pooler = PgBouncer::start(&server).await;
    let refused = PostgresBackend::connect(&ending(&pooler.url())).await;
    let Err(LockError::Config { message }) = refused else { panic!("{refused:?}") };
    assert!(message.contains("ends_with"), "{message}");
}

/// C28: a killed process frees its locks soon, long before their TTL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_process_that_dies_frees_its_locks_before_their_ttl() {
    let (server, name) = (shared().await, fresh_name());
    let next = client(&server.url()).await;
    let mut dies = holder(server, &name, "60").await;
    let ended = Instant::now();
    dies.kill().await;
    turn(&next, &name).await;
    let took = ended.elapsed();
    assert!(took < GRACE + LOOK * 2 + SLACK, "freed after {took:?}");
}

/// C28: a stopped process keeps its connection, and frees its locks at their TTL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_process_that_is_stopped_frees_its_locks_at_their_ttl() {
    let (server, name) = (shared().await, fresh_name());
    let next = client(&server.url()).await;
    let stopped = holder(server, &name, "3").await;
    let ended = Instant::now();
    stopped.stop();
    turn(&next, &name).await;
    let took = ended.elapsed();
    assert!(took < Duration::from_secs(3) + LOOK + SLACK, "freed after {took:?}");
}

/// C8: the end of the connection ends each hold, of all kinds, and is reported at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_cut_connection_ends_holds_of_each_kind_at_once() {
    let server = PostgresServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, next) = (ends(&url_at(proxy.addr())).await, client(&server.url()).await);
    for round in 0..3 {
        let requests = [patient("a"), patient("b").shared(), patient("c").permits(1, 2)];
        let guards = requests.clone().map(|request| holder.acquire(request));
        let guards: Vec<LockGuard> =
            join_all(guards).await.into_iter().map(|guard| guard.expect("free")).collect();
        // One cut closes all connections; the holder has one session for all its holds.
        proxy.cut();
        let cut = Instant::now();
        for guard in guards {
            disconnected(&guard).await;
        }
        let took = cut.elapsed();
        assert!(took < SLACK, "round {round}: told after {took:?}");
        for name in ["a", "b", "c"] {
            turn(&next, name).await;
        }
        let took = cut.elapsed();
        assert!(took < (GRACE + LOOK) * 2 + SLACK, "round {round}: let in after {took:?}");
    }
}

/// Returns the time for which two holders believed, summed over holders whose sessions `end` ends, with one
/// waiter for each.
async fn overlap(server: &PostgresServer, holder_url: &str, end: impl FnOnce()) -> Duration {
    const ROUNDS: usize = 20;
    let (holder, next) = (ends(holder_url).await, client(&server.url()).await);
    let names: Vec<String> = (0..ROUNDS).map(|_| fresh_name()).collect();
    let (mut guards, mut waiting) = (Vec::new(), Vec::new());
    for (n, name) in names.iter().enumerate() {
        let request = if n % 2 == 0 { patient(name) } else { patient(name).shared() };
        guards.push(holder.acquire(request).await.expect("a free lock"));
        waiting.push(queued(&next, &next, patient(name), name).await);
    }
    let lost = guards.into_iter().map(|guard: LockGuard| {
        tokio::spawn(async move {
            guard.lost().await;
            Instant::now()
        })
    });
    let let_in = waiting.into_iter().map(|waiting| {
        tokio::spawn(async move {
            let guard = served(waiting).await;
            (guard, Instant::now())
        })
    });
    let (lost, let_in): (Vec<_>, Vec<_>) = (lost.collect(), let_in.collect());
    let ended = Instant::now();
    end();
    let lost = join_all(lost).await.into_iter().map(|lost| lost.expect("no panic"));
    let mut overlap = Duration::ZERO;
    for (lost, let_in) in lost.zip(join_all(let_in).await) {
        let (guard, let_in) = let_in.expect("no panic");
        let took = let_in - ended;
        assert!(took < GRACE + LOOK * 2 + SLACK, "let in after {took:?}");
        overlap += lost.saturating_duration_since(let_in);
        released(guard).await;
    }
    overlap
}

/// P2: nobody is let in beside a holder whose session was terminated, before it has noticed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_nobody_is_let_in_beside_the_holder_of_a_killed_session() {
    let server = PostgresServer::start().await;
    assert_eq!(overlap(&server, &server.url(), || terminate(&server)).await, Duration::ZERO);
}

/// P2, C8: the same for a holder that cannot notice, because its connection is half-open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_nobody_is_let_in_beside_the_holder_at_a_half_open_connection() {
    let server = PostgresServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let end = || {
        proxy.set_existing(Mode::BlackHole);
        terminate(&server);
    };
    assert_eq!(overlap(&server, &url_at(proxy.addr()), end).await, Duration::ZERO);
}

/// P2: a crash of the server ends all sessions, and keeps the holds until their holders have noticed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_nobody_is_let_in_beside_a_holder_after_a_crash_of_the_server() {
    let mut server = PostgresServer::start().await;
    let (holder, next) = (ends(&server.url()).await, client(&server.url()).await);
    let guard = held(&holder, "x").await;
    server.kill();
    server.restart().await;
    disconnected(&guard).await;
    let second = timeout(LIMIT, held(&next, "x")).await.expect("its time is over");
    assert!(second.token() > guard.token());
}

/// C8: an unanswered extension is no loss while the session lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_table_that_is_locked_is_no_loss() {
    let server = PostgresServer::start().await;
    let client = ends(&server.url()).await;
    let guard = held(&client, &fresh_name()).await;
    let mut stranger = PgConnection::connect(&server.url()).await.expect("a connection");
    let mut busy = stranger.begin().await.expect("begun");
    busy.execute("LOCK TABLE leasehold.locks_grants").await.expect("locked");
    guard.extend(MINUTE).await.expect_err("the table is locked");
    let lost = timeout(GRACE + LOOK, guard.lost()).await;
    assert!(lost.is_err(), "{lost:?}");
    busy.rollback().await.expect("rolled back");
    guard.extend(MINUTE).await.expect("still held");
    released(guard).await;
}

/// P2: a server without the client's session, as after a failover, grants and extends nothing for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_a_server_without_the_session_grants_and_extends_nothing() {
    let (server, name) = (shared().await, fresh_name());
    drop(ends(&server.url()).await);
    let owner = OwnerId::random().expose();
    for call in [
        format!(
            "acquire('{name}', '{owner}', 60000, '', NULL, 0, false, NULL, 42, 9007199254740991)"
        ),
        format!("acquire('{name}', '{owner}', 60000, '', 0, 0, false, NULL, 42, 9007199254740991)"),
        format!(
            "acquire_together(ARRAY['{name}'], ARRAY['{owner}'::uuid], ARRAY[60000], ARRAY[''], NULL, 0, false, \
             42, 9007199254740991)"
        ),
        format!("extend(ARRAY['{name}'], ARRAY['{owner}'::uuid], ARRAY[1], ARRAY[60000], 42)"),
    ] {
        let code = server.psql(&format!(
            "CREATE FUNCTION pg_temp.code() RETURNS text LANGUAGE plpgsql AS $$ BEGIN \
             PERFORM leasehold.locks_v1_{call}; RETURN 'granted'; \
             EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$; SELECT pg_temp.code()"
        ));
        assert_eq!(code, "LH005", "{call}");
    }
}

/// P2: a waiter may return over another session. Its hold then ends with the session of the last request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_the_hold_of_a_waiter_ends_with_the_session_over_which_it_asks() {
    let server = PostgresServer::start().await;
    drop(ends(&server.url()).await);
    let other = client(&server.url()).await;
    for kind in ["NULL, 0", "0, 0"] {
        let (name, owner) = (fresh_name(), OwnerId::random().expose());
        let ask = async |key: u32| {
            let mut session = PgConnection::connect(&server.url()).await.expect("a connection");
            let lock = format!("SELECT pg_advisory_lock({key})");
            session.execute(AssertSqlSafe(lock)).await.expect("nobody has it");
            server.psql(&format!(
                "SELECT token FROM leasehold.locks_v1_acquire('{name}', '{owner}', 60000, '', {kind}, \
                 true, NULL, {key}, 9007199254740991)"
            ));
            session
        };
        let guard = held(&other, &name).await;
        ask(1).await.close().await.expect("closed");
        server.psql("UPDATE leasehold.locks_grants SET expires_at = now()");
        let _session = ask(2).await;
        let bound = "SELECT session FROM leasehold.locks_holds NATURAL JOIN (SELECT owner, session FROM \
             leasehold.locks_grants UNION ALL SELECT owner, session FROM leasehold.locks_holders) sessions \
             WHERE name";
        assert_eq!(server.psql(&format!("{bound} = '{name}'")), "2", "{kind}");
        drop(guard);
    }
}

/// C10, C38: an attached lease of each kind ends with the connection of the client that extends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c10_an_attached_lease_ends_with_the_connection_that_extends_it() {
    let server = PostgresServer::start().await;
    let (attacher, next) = (ends(&server.url()).await, client(&server.url()).await);
    for request in [patient("a"), patient("b").shared()] {
        let taker = PostgresBackend::connect(&ending(&server.url())).await.expect("a connection");
        let lease = taker.acquire_lease(&request).await.expect("a free lock");
        let guard = attacher.attach(lease).await.expect("still held");
        drop(taker);
        let till = Instant::now() + GRACE + LOOK;
        while Instant::now() < till {
            is_busy(&next, guard.name().as_str()).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert!(guard.is_held());
        terminate(&server);
        disconnected(&guard).await;
        turn(&next, guard.name().as_str()).await;
    }
}

async fn is_busy(client: &LockClient, name: &str) {
    let busy = client.acquire(LockRequest::new(name).wait(leasehold::Wait::Never)).await;
    assert!(matches!(busy, Err(LockError::NotAcquired { .. })), "{busy:?}");
}

/// C10: a living client's extension within the grace period keeps the hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c10_a_hold_that_is_extended_within_the_grace_goes_on() {
    let server = PostgresServer::start().await;
    let taker = PostgresBackend::connect(&ending(&server.url())).await.expect("a connection");
    let other = PostgresBackend::connect(&ending(&server.url())).await.expect("a connection");
    let next = client(&server.url()).await;
    let lease = taker.acquire_lease(&patient("x")).await.expect("a free lock");
    drop(taker);
    eventually("its session is seen to be gone", LIMIT, async || {
        is_busy(&next, "x").await;
        number(&server, "SELECT count(*) FROM leasehold.locks_grants WHERE session IS NULL") == 1
    })
    .await;
    let renewal = Renewal::new(&lease, Ttl::new(MINUTE).expect("a good TTL"));
    let extended = other.extend_one(&renewal).await.expect("an answer");
    assert_eq!(extended, Extension::Extended(MINUTE));
    let left =
        "SELECT count(*) FROM leasehold.locks_grants WHERE expires_at > now() + interval '30 s'";
    assert_eq!(number(&server, left), 1);
}

/// C26, R1: a client has one session for all its holds, and none once it is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c26_all_holds_of_a_client_have_one_session() {
    let server = PostgresServer::start().await;
    let client = ends(&server.url()).await;
    let names: Vec<_> = (0..40).map(|_| fresh_name()).collect();
    let guards = join_all(names.iter().map(|name| held(&client, name))).await;
    // Eight for requests, and one for the holds. A pause of the machine may make the client replace some.
    eventually("nine are open at most", LIMIT, async || sessions(&server) <= 9).await;
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    assert_eq!(number(&server, locks), 1);
    join_all(guards.into_iter().map(released)).await;
    client.shutdown().await;
    drop(client);
    eventually("the connections are closed", LIMIT, async || sessions(&server) == 0).await;
}

/// C41: a run must keep others out even after its process died, which such a hold does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c41_a_run_that_is_to_outlast_its_process_is_refused() {
    let client = ends(&shared().await.url()).await;
    let once = client.once(fresh_name()).at_least(Duration::from_secs(1));
    let refused = once.run(async |_| ()).await;
    assert!(matches!(refused, Err(LockError::Unsupported { .. })), "{refused:?}");
}

/// C8: a client gives its holds up when their session is silent, even if it has other connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_session_that_is_silent_is_given_up() {
    let server = PostgresServer::start().await;
    let client = ends(&server.url()).await;
    let guard = held(&client, &fresh_name()).await;
    let session = "SELECT pid FROM pg_locks WHERE locktype = 'advisory'";
    let process = server.psql(session).parse().expect("a process");
    signal::stop(process);
    let stopped = Instant::now();
    disconnected(&guard).await;
    let took = stopped.elapsed();
    signal::cont(process);
    assert!(took < GRACE + SLACK, "told after {took:?}");
}

/// A client waits outside the server: no statement of an application waits for it, and the log has no line of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_a_waiter_delays_no_statement_of_the_application() {
    let settings = ["log_lock_waits=on", "deadlock_timeout=100ms"];
    let server = PostgresServer::start_with(&settings).await;
    let (holder, waiter, name) =
        (ends(&server.url()).await, ends(&server.url()).await, fresh_name());
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    server.psql("CREATE TABLE stock (item int)");
    server.psql("CREATE INDEX CONCURRENTLY ON stock (item)");
    released(guard).await;
    released(served(waiting).await).await;
    assert!(!server.log().contains("on advisory lock"), "{}", server.log());
}

/// C8: a waiter whose TTL is shorter than the pause between its looks is still bound to its session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_short_hold_that_was_waited_for_is_not_lost_at_once() {
    let (server, short) = (shared().await, Duration::from_millis(300));
    let other = client(&server.url()).await;
    for _ in 0..3 {
        let (name, waiter) = (fresh_name(), ends(&server.url()).await);
        let guard = held(&other, &name).await;
        let waiting = queued(&waiter, &other, patient(&name).ttl(short), &name).await;
        tokio::time::sleep(short + short / 6).await;
        // The session forgets expired owners before its map grows.
        let others = join_all((0..8).map(async |_| held(&waiter, &fresh_name()).await)).await;
        released(guard).await;
        let guard = served(waiting).await;
        // On a busy machine it may expire.
        let lost = timeout(short / 2, guard.lost()).await;
        assert!(!matches!(lost, Ok(LostReason::Disconnected)), "{lost:?}");
        drop((guard, others));
    }
}
