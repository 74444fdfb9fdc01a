//! Effects of the server's own locks: deadlocks, time-outs, scripts that wait.

use leasehold::core::backend::DistributedLockExt;
use lock_testkit::LeaseExt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::core::OwnerId;
use leasehold::core::Ttl;
use leasehold::core::backend::Renewal;
use leasehold::postgres::PostgresBackend;
use leasehold::{DistributedLock, LockClient, LockGuard, LockRequest, Wait};
use lock_testkit::{PostgresServer, eventually};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::time::{sleep, timeout};

use crate::server::number;
use crate::support::{
    LIMIT, acquiring, client, fresh_name, patient, queued, released, served, turn, until_free,
};

async fn connection(server: &PostgresServer) -> PgConnection {
    PgConnection::connect(&server.url()).await.expect("a connection")
}

/// Counts the statements that wait for a lock inside the server.
const BLOCKED: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";

/// Waits until at least `count` statements wait for a lock inside the server.
pub(crate) async fn until_blocked(server: &PostgresServer, count: u64) {
    eventually("they wait", LIMIT, async || number(server, BLOCKED) >= count).await;
}

/// No default of the role, the database or the server changes how long a request waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_default_lock_timeout_changes_nothing() {
    let server = PostgresServer::start_with(&["lock_timeout=50ms"]).await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    turn(&client, &name).await;
    let mut stranger = connection(&server).await;
    let timeouts = || server.log().matches("lock timeout").count();
    for _ in 0..10 {
        let (before, asked) = (timeouts(), Instant::now());
        let mut busy = stranger.begin().await.expect("begun");
        let lock = format!("SELECT 1 FROM leasehold.locks WHERE name = '{name}' FOR UPDATE");
        busy.execute(AssertSqlSafe(lock)).await.expect("locked");
        let acquiring = acquiring(&client, patient(&name));
        until_blocked(&server, 1).await;
        sleep(Duration::from_millis(200)).await;
        busy.rollback().await.expect("rolled back");
        let took = asked.elapsed();
        released(acquiring.await.expect("no panic").expect("granted")).await;
        // Our own time-out is three quarters of a second.
        if took < Duration::from_millis(700) {
            return assert_eq!(timeouts(), before, "{}", server.log());
        }
    }
    panic!("the machine takes too long for everything");
}

/// A lock is jammed while another transaction keeps its row locked. Attempts at it that were given up delay
/// neither the release of another lock of the same client nor the acquisition of a third.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_jammed_lock_costs_no_other() {
    let jam = Jam::start().await;
    let attempts = (1..=100).map(|millis| jam.given_up_after(Duration::from_millis(millis)));
    join_all(attempts).await;
    // Two attempts, whose sessions the others reused, and one or two withdrawals.
    let blocked = number(&jam.server, BLOCKED);
    assert!(blocked <= 5, "{blocked} sessions wait for the jammed lock");
    jam.costs_no_other().await;
    jam.end().await;
}

/// Attempts that go on at a jammed lock cost other locks nothing either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_crowd_at_a_jammed_lock_costs_no_other() {
    let jam = Jam::start().await;
    let crowd = (1..=100).map(async |millis| {
        loop {
            jam.given_up_after(Duration::from_millis(millis)).await;
        }
    });
    let cost = async {
        // Two attempts and a withdrawal.
        until_blocked(&jam.server, 3).await;
        jam.costs_no_other().await;
    };
    tokio::select! {
        _ = join_all(crowd) => {}
        () = cost => {}
    }
    jam.end().await;
}

/// C12: attempts that use all connections available to them do not delay renewals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_crowd_at_jammed_locks_does_not_delay_renewals() {
    let server = PostgresServer::start().await;
    let lock = PostgresBackend::connect(&server.url()).await.expect("a connection");
    let lease = lock.acquire_lease(&patient(&fresh_name())).await.expect("a free lock");
    let renewal = async {
        until_blocked(&server, 7).await;
        let renewal = Renewal::new(&lease, Ttl::MAX);
        soon(async || lock.extend_one(&renewal).await.expect("an answer")).await;
    };
    beside_a_crowd(&server, &lock, 10, renewal).await;
}

/// C12: a hold whose grant is locked by a stranger costs no other hold its renewal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_jammed_hold_costs_no_other_its_renewal() {
    let server = PostgresServer::start().await;
    let client = client(&server.url()).await;
    let request = |name| patient(name).ttl(Duration::from_secs(9));
    let jammed = client.acquire(request("jammed")).await.expect("a free lock");
    let kept = client.acquire(request("kept")).await.expect("a free lock");
    let mut stranger = connection(&server).await;
    let jam = "BEGIN; SELECT FROM leasehold.locks_grants WHERE name = 'jammed' FOR UPDATE";
    stranger.execute(sqlx::raw_sql(jam)).await.expect("locked");
    eventually("the jammed hold is lost", LIMIT, async || !jammed.is_held()).await;
    sleep(Duration::from_secs(2)).await;
    assert!(kept.is_held(), "{:?}", kept.renewal_error());
}

/// C19: attempts at one jammed lock, none of which gives up, leave connections for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_crowd_at_one_jammed_lock_leaves_connections_for_others() {
    let server = PostgresServer::start().await;
    let lock = PostgresBackend::connect(&server.url()).await.expect("a connection");
    let claim = patient(&fresh_name()).claim().expect("a good claim");
    let attempt = async {
        until_blocked(&server, 2).await;
        soon(async || lock.acquire(&claim, None).await.expect("an answer")).await;
    };
    beside_a_crowd(&server, &lock, 1, attempt).await;
}

/// Asserts that an answer does not queue behind those of a crowd: the server gives up an attempt at a jammed lock
/// after a second. The best of several tries counts, since the machine may pause for a moment.
async fn soon<T>(ask: impl AsyncFn() -> T) {
    for _ in 0..5 {
        if timeout(Duration::from_millis(700), ask()).await.is_ok() {
            return;
        }
    }
    panic!("each answer came behind the crowd");
}

/// Runs `what` beside a crowd that repeatedly tries to acquire `locks` jammed locks.
async fn beside_a_crowd(
    server: &PostgresServer,
    lock: &PostgresBackend,
    locks: usize,
    what: impl Future<Output = ()>,
) {
    server.psql("INSERT INTO leasehold.locks SELECT 'jam-' || n FROM generate_series(0, 9) n");
    let mut stranger = connection(server).await;
    let jam = "BEGIN; SELECT 1 FROM leasehold.locks WHERE starts_with(name, 'jam-') FOR UPDATE";
    stranger.execute(sqlx::raw_sql(jam)).await.expect("locked");
    let crowd = (0..60).map(async |n| {
        let claim = patient(&format!("jam-{}", n % locks)).claim().expect("a good claim");
        while lock.acquire(&claim, None).await.is_err() {}
    });
    tokio::select! {
        _ = join_all(crowd) => panic!("no lock was jammed"),
        () = what => {}
    }
}

/// A client with a jammed lock, and another lock that it holds.
struct Jam {
    client: LockClient,
    observer: LockClient,
    name: String,
    other: String,
    guard: Mutex<Option<LockGuard>>,
    stranger: PgConnection,
    server: PostgresServer,
}

impl Jam {
    async fn start() -> Self {
        let server = PostgresServer::start().await;
        let (client, observer) = (client(&server.url()).await, client(&server.url()).await);
        let (name, other) = (fresh_name(), fresh_name());
        turn(&client, &name).await;
        let request = patient(&other).ttl(Duration::from_secs(15));
        let guard = client.acquire(request).await.expect("a free lock");
        let mut stranger = connection(&server).await;
        let lock = format!("BEGIN; SELECT 1 FROM leasehold.locks WHERE name = '{name}' FOR UPDATE");
        stranger.execute(sqlx::raw_sql(AssertSqlSafe(lock))).await.expect("locked");
        Self { client, observer, name, other, guard: Mutex::new(Some(guard)), stranger, server }
    }

    async fn given_up_after(&self, limit: Duration) {
        let request = LockRequest::new(&self.name).wait(Wait::Never);
        let tried = timeout(limit, self.client.acquire(request)).await;
        assert!(!matches!(tried, Ok(Ok(_))), "the lock is not jammed");
    }

    async fn costs_no_other(&self) {
        const BOUND: Duration = Duration::from_secs(10);
        let dropped = Instant::now();
        drop(self.guard.lock().expect("no panic").take());
        let freed = async {
            until_free(&self.observer, &self.other).await;
            dropped.elapsed()
        };
        let acquired = async {
            turn(&self.client, &fresh_name()).await;
            dropped.elapsed()
        };
        let (freed, acquired) = tokio::join!(freed, acquired);
        assert!(freed < BOUND, "the other lock was free after {freed:?}");
        assert!(acquired < BOUND, "a third lock was acquired after {acquired:?}");
    }

    /// Once the other transaction ends, the lock is free: no attempt that was given up holds it.
    async fn end(mut self) {
        self.stranger.execute("ROLLBACK").await.expect("rolled back");
        until_free(&self.observer, &self.name).await;
        turn(&self.observer, &self.name).await;
    }
}

/// Each withdrawal also clears remains of other locks. Two simultaneous withdrawals do not wait for each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn withdrawals_that_clear_away_do_not_deadlock() {
    const GATE: i64 = 42;
    let server = PostgresServer::start().await;
    drop(client(&server.url()).await);
    let owners = [(); 2].map(|()| OwnerId::random());
    for (name, owner) in ["a", "b"].iter().zip(owners) {
        server.psql(&format!(
            "INSERT INTO leasehold.locks VALUES ('{name}'); \
             INSERT INTO leasehold.locks_grants VALUES ('{name}', 1, '{}', '', 'infinity')",
            owner.expose()
        ));
    }
    // The number that one withdrawal clears, those of the other's lock first.
    for name in ["b", "a"] {
        server.psql(&format!(
            "INSERT INTO leasehold.locks_queue (owner, name, ttl_ms, label, seen_at) \
             SELECT gen_random_uuid(), '{name}', 1000, '', '-infinity' FROM generate_series(1, 20)"
        ));
    }
    // The end of a hold waits at a gate, so that both withdrawals run at once.
    server.psql(&format!(
        "CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN PERFORM pg_advisory_xact_lock_shared({GATE}); RETURN NEW; END'; \
         CREATE TRIGGER gate BEFORE UPDATE ON leasehold.locks_grants FOR EACH ROW EXECUTE FUNCTION gate()"
    ));
    let mut gatekeeper = connection(&server).await;
    gatekeeper
        .execute(AssertSqlSafe(format!("SELECT pg_advisory_lock({GATE})")))
        .await
        .expect("shut");
    let mut withdrawals = Vec::new();
    for (blocked, (name, owner)) in (1..).zip(["a", "b"].into_iter().zip(owners)) {
        let (mut session, owner) = (connection(&server).await, owner.expose());
        withdrawals.push(tokio::spawn(async move {
            let withdraw = format!(
                "SELECT leasehold.locks_v1_withdraw('{name}', ARRAY['{owner}'::uuid], 9223372036854775807)"
            );
            session.execute(AssertSqlSafe(withdraw)).await
        }));
        until_blocked(&server, blocked).await;
    }
    drop(gatekeeper);
    for withdrawal in withdrawals {
        withdrawal.await.expect("no panic").expect("no deadlock");
    }
    assert_eq!(number(&server, "SELECT count(*) FROM leasehold.locks_queue"), 0);
}

/// The script may be run again beside active clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_waits_for_no_transaction() {
    let server = PostgresServer::start().await;
    let lock = PostgresBackend::connect(&server.url()).await.expect("a connection");
    let mut worker = connection(&server).await;
    let mut busy = worker.begin().await.expect("begun");
    let withdraw = "SELECT leasehold.locks_v1_withdraw('a', ARRAY[gen_random_uuid()], 0)";
    busy.execute(withdraw).await.expect("withdrawn");
    lock.migrate().await.expect("nothing to wait for");
    busy.commit().await.expect("committed");
}

/// C16, C47: a release that fails after its commit, by a time-out or a cancel, is no loss.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c47_a_release_that_fails_after_its_commit_is_no_loss() {
    // The procedure calls this function between its commits.
    const FAILS: &str = "CREATE OR REPLACE FUNCTION leasehold.locks_v1_is_surely_committed(since timestamptz) \
        RETURNS boolean LANGUAGE plpgsql AS \
        $$ BEGIN RAISE EXCEPTION 'canceling statement' USING ERRCODE = '57014'; END $$";
    let server = PostgresServer::start().await;
    let (holder, waiter, name) =
        (client(&server.url()).await, client(&server.url()).await, fresh_name());
    let guard = holder.acquire(patient(&name)).await.expect("a free lock");
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    server.psql(FAILS);
    released(guard).await;
    released(served(waiting).await).await;
    assert!(server.log().contains("canceling statement"), "{}", server.log());
}
