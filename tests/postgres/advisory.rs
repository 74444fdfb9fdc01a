//! What is particular to advisory locks: sessions, and what ends them.

use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::core::backend::Attempt;
use leasehold::postgres::AdvisoryBackend;
use leasehold::{DistributedLock, LockClient, LockError, LockRequest, LostReason, Wait};
use lock_testkit::LeaseExt;
use lock_testkit::{Mode, PgBouncer, PostgresServer, Proxy, child, eventually};
use sqlx::{Connection, Executor, PgConnection};
use tokio::time::timeout;

use crate::server::{sessions, shared, url_at};
use crate::support::{LIMIT, MINUTE, SLACK, fresh_name, held, patient, queued, released, served};

pub(crate) async fn advisory(url: &str) -> LockClient {
    LockClient::new(AdvisoryBackend::connect(url).await.expect("a connection"))
}

/// The role of a child process: takes the lock and keeps it until it is killed.
pub(crate) async fn hold() {
    let url = std::env::var("LOCK_URL").expect("a URL");
    let name = std::env::var("LOCK_NAME").expect("a name");
    let client = advisory(&url).await;
    let request = patient(&name).ttl(Duration::from_secs(3));
    let guard = client.acquire(request).await.expect("a free lock");
    child::say(&guard.token().to_string());
    std::future::pending::<()>().await;
}

/// The locks that a server's sessions hold.
pub(crate) fn locks(server: &PostgresServer) -> usize {
    let count = server.psql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'");
    count.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_a_standby_and_a_transaction_pooler_are_refused() {
    let server = PostgresServer::start().await;
    drop(advisory(&server.url()).await);
    let (pooler, standby) = (PgBouncer::start(&server).await, server.standby().await);
    for url in [pooler.url(), standby.url()] {
        let refused = AdvisoryBackend::connect(&url).await;
        let Err(LockError::Config { message }) = refused else { panic!("{refused:?}") };
        assert!(message.contains("lock_mode=table"), "{message}");
    }
    assert_eq!(locks(&server), 0);
}

/// C8: the loss of the session is the loss of the lock, and is told as such.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_session_that_ends_is_told_as_disconnected() {
    let server = PostgresServer::start().await;
    let (client, name) = (advisory(&server.url()).await, fresh_name());
    let guard = client.acquire(patient(&name)).await.expect("a free lock");
    server.psql(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted",
    );
    // Long before the next renewal of a TTL of a minute.
    let reason = timeout(Duration::from_secs(3), guard.lost()).await.expect("it is seen");
    assert_eq!(reason, LostReason::Disconnected);
    let next = client.acquire(patient(&name)).await.expect("it is free");
    assert!(next.token() > guard.token());
}

/// A process that is killed or stopped frees its locks within its TTL and a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_process_that_dies_or_stops_frees_its_locks() {
    let server = shared().await;
    let client = advisory(&server.url()).await;
    for dies in [true, false] {
        let name = fresh_name();
        let role = [("LOCK_URL", &*server.url()), ("LOCK_NAME", &*name)];
        let mut holder = child::spawn("advisory holder", &role);
        holder.line().await;
        let busy = client.acquire(LockRequest::new(&name).wait(Wait::Never)).await;
        assert!(matches!(busy, Err(LockError::NotAcquired { .. })), "{busy:?}");
        let ended = Instant::now();
        if dies {
            holder.kill().await;
        } else {
            holder.stop();
        }
        client.acquire(patient(&name)).await.expect("it is free").release().await.expect("freed");
        let took = ended.elapsed();
        assert!(took < Duration::from_secs(4) + SLACK * 2, "freed after {took:?}");
    }
}

/// R1, C19: acquisitions that are dropped at any point leave no lock behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_dropped_acquisitions_leave_no_advisory_lock() {
    let server = PostgresServer::start().await;
    let client = advisory(&server.url()).await;
    let dropped = (0..300).map(|i| {
        let client = client.clone();
        async move {
            let name = format!("dropped-{}", i % 20);
            let limit = Duration::from_micros(i * 37);
            let _ = timeout(limit, client.acquire(patient(&name))).await;
        }
    });
    futures_util::future::join_all(dropped).await;
    eventually("all is given back", LIMIT, async || locks(&server) == 0).await;
    client.shutdown().await;
    drop(client);
    eventually("the connections are closed", LIMIT, async || {
        server.psql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
            == "1"
    })
    .await;
}

/// C8: no answer to an extension is no loss, while the session lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_server_that_is_slow_to_answer_is_no_loss() {
    let server = PostgresServer::start().await;
    let client = advisory(&server.url()).await;
    let (guard, other) = (held(&client, &fresh_name()).await, held(&client, &fresh_name()).await);
    let mut stranger = PgConnection::connect(&server.url()).await.expect("a connection");
    let mut busy = stranger.begin().await.expect("begun");
    busy.execute("LOCK TABLE leasehold.locks_advisory_grants").await.expect("locked");
    guard.extend(MINUTE).await.expect_err("the table is locked");
    assert!(server.log().contains("lock timeout"));
    busy.rollback().await.expect("rolled back");
    // The late answer is not taken for the answer to the release.
    released(other).await;
    // The hold is looked after again, by the same session.
    let lost = timeout(Duration::from_secs(2), guard.lost()).await;
    assert!(lost.is_err(), "{lost:?}");
    guard.extend(MINUTE).await.expect("still held");
    assert_eq!(locks(&server), 1);
    released(guard).await;
}

/// C8: a loss is told although the session that is asked for the reason does not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_loss_is_told_although_other_sessions_are_silent() {
    let server = PostgresServer::start().await;
    let client = advisory(&server.url()).await;
    let session = "SELECT pid FROM pg_locks WHERE locktype = 'advisory'";
    let spare = held(&client, &fresh_name()).await;
    let silent = server.psql(session);
    let guard = held(&client, &fresh_name()).await;
    released(spare).await;
    signal("-STOP", &silent);
    let ended = Instant::now();
    server.psql(&format!("SELECT pg_terminate_backend(({session}))"));
    let reason = timeout(LIMIT, guard.lost()).await.expect("it is seen");
    let took = ended.elapsed();
    signal("-CONT", &silent);
    assert_eq!(reason, LostReason::Disconnected);
    assert!(took < SLACK * 2, "told after {took:?}");
}

fn signal(signal: &str, process: &str) {
    let status = Command::new("kill").args([signal, process]).status().expect("kill can be run");
    assert!(status.success(), "{signal} of {process}");
}

/// C8: a watch that begins after the end tells of it as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_watch_of_what_is_over_tells_so() {
    let server = PostgresServer::start().await;
    let lock = AdvisoryBackend::connect(&server.url()).await.expect("a connection");
    let lease = lock.acquire_lease(&patient(&fresh_name())).await.expect("a free lock");
    server.psql(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted",
    );
    for _ in 0..2 {
        let watch = lock.watch(&lease).expect("it is watched");
        let reason = timeout(LIMIT, watch).await.expect("it is seen");
        assert_eq!(reason, LostReason::Disconnected);
    }
}

/// C26: sessions of holds that ended are kept for the next ones, but not all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c26_holds_that_end_together_leave_few_sessions() {
    let server = PostgresServer::start().await;
    let client = advisory(&server.url()).await;
    let names: Vec<_> = (0..40).map(|_| fresh_name()).collect();
    let guards = join_all(names.iter().map(|name| held(&client, name))).await;
    assert!(sessions(&server) >= 40);
    join_all(guards.into_iter().map(released)).await;
    // Eight that held, and eight for requests.
    eventually("the others are closed", LIMIT, async || sessions(&server) <= 16).await;
}

/// C17: where one spare session swallowed an attempt, the others are not tried as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_an_attempt_without_an_answer_gives_up_the_spare_sessions() {
    let proxy = Proxy::start(shared().await.addr()).await;
    let lock = AdvisoryBackend::connect(&url_at(proxy.addr())).await;
    let (lock, names) = (lock.expect("a connection"), [(); 4].map(|()| fresh_name()));
    let client = LockClient::new(lock.clone());
    let guards = join_all(names.iter().map(|name| held(&client, name))).await;
    join_all(guards.into_iter().map(released)).await;
    proxy.set_existing(Mode::BlackHole);
    let claim = patient(&fresh_name()).claim().expect("a good claim");
    let swallowed = lock.acquire(&claim, None).await;
    assert!(swallowed.is_err(), "{swallowed:?} from a black hole");
    let granted = lock.acquire(&claim, None).await.expect("an answer");
    assert!(matches!(granted, Attempt::Granted(_)), "{granted:?}");
}

/// A client of its own behind a network that can be disturbed.
async fn advisory_through(proxy: &Proxy) -> LockClient {
    advisory(&url_at(proxy.addr())).await
}

/// C8: a connection that is cut ends the belief at once: the server frees the lock as soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_cut_connection_is_told_before_the_next_one_believes_for_long() {
    let server = PostgresServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, next) = (advisory_through(&proxy).await, advisory(&server.url()).await);
    for _ in 0..5 {
        let name = fresh_name();
        let guard = held(&holder, &name).await;
        let waiting = queued(&next, &next, patient(&name), &name).await;
        let cut = Instant::now();
        proxy.cut();
        let reason = timeout(LIMIT, guard.lost()).await.expect("it is seen");
        let took = cut.elapsed();
        assert!(took < SLACK, "told after {took:?}");
        let second = served(waiting).await;
        // Also where the next one has written its own hold by then.
        assert_eq!(reason, LostReason::Disconnected);
        released(second).await;
    }
}

/// C8: a connection whose end only the server saw is noticed by its silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_half_open_connection_is_told_within_three_seconds() {
    let server = PostgresServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, next) = (advisory_through(&proxy).await, advisory(&server.url()).await);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    let waiting = queued(&next, &next, patient(&name), &name).await;
    proxy.set_existing(Mode::BlackHole);
    let ended = Instant::now();
    server.psql(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted",
    );
    // Long before the deadline of a minute.
    let reason = timeout(LIMIT, guard.lost()).await.expect("it is seen");
    let took = ended.elapsed();
    assert_eq!(reason, LostReason::Disconnected);
    assert!(took < Duration::from_secs(3) + SLACK, "told after {took:?}");
    released(served(waiting).await).await;
}

/// C8: an eviction is told as such, and at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_an_eviction_is_told_as_such_although_another_holds_by_then() {
    let server = PostgresServer::start().await;
    let (holder, next) = (advisory(&server.url()).await, advisory(&server.url()).await);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    let waiting = queued(&next, &next, patient(&name), &name).await;
    let evicted = Instant::now();
    next.admin().evict(&name).await.expect("an answer").pop().expect("it was held");
    let reason = timeout(LIMIT, guard.lost()).await.expect("it is seen");
    let took = evicted.elapsed();
    assert_eq!(reason, LostReason::Evicted);
    assert!(took < SLACK, "told after {took:?}");
    released(served(waiting).await).await;
}

/// C10: what an attempt that was given up left behind does not end a later hold of the same owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c10_an_abandoned_attempt_ends_no_later_hold_of_its_owner() {
    let server = PostgresServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let url = url_at(proxy.addr());
    let lock = AdvisoryBackend::connect(&url).await.expect("a connection");
    let claim = patient(&fresh_name()).claim().expect("a good claim");
    // A moment of silence: the first attempt has no answer in time, a later one finds the hold.
    proxy.set(Mode::BlackHole);
    let unanswered = timeout(Duration::from_millis(300), lock.acquire(&claim, None)).await;
    assert!(unanswered.is_err(), "{unanswered:?} from a black hole");
    proxy.set(Mode::Pass);
    let mut granted = None;
    while granted.is_none() {
        if let Ok(Attempt::Granted(grant)) = lock.acquire(&claim, None).await {
            granted = Some(grant.token);
        }
    }
    // Whatever the first attempt does by itself, it has done by then.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let again = lock.acquire(&claim, None).await.expect("an answer");
    let Attempt::Granted(again) = again else { panic!("{again:?}") };
    assert_eq!(Some(again.token), granted, "it was released under its holder");
    assert_eq!(locks(&server), 1);
}

/// C28: a caller that left before the answer and withdraws nothing does not keep the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_grant_that_nobody_heard_of_is_given_back() {
    let server = PostgresServer::start().await;
    let lock = AdvisoryBackend::connect(&server.url()).await.expect("a connection");
    let (next, name) = (advisory(&server.url()).await, fresh_name());
    let claim = patient(&name).claim().expect("a good claim");
    // Asked, and left at once.
    let _ = timeout(Duration::ZERO, lock.acquire(&claim, None)).await;
    eventually("it is granted", LIMIT, async || locks(&server) == 1).await;
    let granted = Instant::now();
    released(held(&next, &name).await).await;
    let took = granted.elapsed();
    assert!(took < Duration::from_secs(3) + SLACK, "free after {took:?}");

    // A caller that comes back for the grant has it.
    let _ = timeout(Duration::ZERO, lock.acquire(&claim, None)).await;
    eventually("it is granted", LIMIT, async || locks(&server) == 1).await;
    eventually("it is found", LIMIT, async || {
        let found = lock.acquire(&claim, None).await;
        matches!(found, Ok(Attempt::Granted(_)))
    })
    .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(locks(&server), 1);
}
