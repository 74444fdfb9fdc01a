//! What is particular to advisory locks: sessions, and what ends them.

use std::time::{Duration, Instant};

use leasehold::postgres::AdvisoryLock;
use leasehold::{LockClient, LockError, LockRequest, LostReason, Wait};
use test_support::{PgBouncer, PostgresServer, child, eventually};
use tokio::time::timeout;

use crate::{LIMIT, SLACK, fresh_name, patient, shared};

async fn advisory(url: &str) -> LockClient {
    LockClient::new(AdvisoryLock::connect(url).await.expect("a connection"))
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
fn held(server: &PostgresServer) -> usize {
    let count = server.psql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'");
    count.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_a_standby_and_a_transaction_pooler_are_refused() {
    let server = PostgresServer::start().await;
    drop(advisory(&server.url()).await);
    let (pooler, standby) = (PgBouncer::start(&server).await, server.standby().await);
    for url in [pooler.url(), standby.url()] {
        let refused = AdvisoryLock::connect(&url).await;
        let Err(LockError::Config { message }) = refused else { panic!("{refused:?}") };
        assert!(message.contains("lock_mode=table"), "{message}");
    }
    assert_eq!(held(&server), 0);
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

/// A process that is killed frees its locks at once, one that is stopped within its TTL and a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_process_that_dies_or_stops_frees_its_locks() {
    let server = shared().await;
    let client = advisory(&server.url()).await;
    for (dies, bound) in [(true, 1), (false, 4)] {
        let name = fresh_name();
        let role = [("LOCK_URL", &*server.url()), ("LOCK_NAME", &*name)];
        let mut holder = child::spawn("advisory holder", &role);
        holder.line().await;
        let busy = client.acquire(LockRequest::new(&name).wait(Wait::No)).await;
        assert!(matches!(busy, Err(LockError::NotAcquired { .. })), "{busy:?}");
        let ended = Instant::now();
        if dies {
            holder.kill().await;
        } else {
            holder.stop();
        }
        client.acquire(patient(&name)).await.expect("it is free").release().await.expect("freed");
        let took = ended.elapsed();
        assert!(took < Duration::from_secs(bound) + SLACK * 2, "freed after {took:?}");
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
    eventually("all is given back", LIMIT, async || held(&server) == 0).await;
    client.shutdown().await;
    drop(client);
    eventually("the connections are closed", LIMIT, async || {
        server.psql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
            == "1"
    })
    .await;
}
