//! Advisory locks that another client holds: extending, watching and ending them.

use leasehold::core::backend::DistributedLockExt;
use std::time::Duration;

use leasehold::core::Ttl;
use leasehold::core::backend::{Extension, Renewal};
use leasehold::postgres::AdvisoryBackend;
use leasehold::{LockAdmin, LockClient, LostReason, OwnerId, Whom};
use lock_testkit::LeaseExt;
use lock_testkit::PostgresServer;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::time::timeout;

use crate::server::{number, shared};
use crate::support::{MINUTE, fresh_name, held, patient, released};
use crate::transactions::until_blocked;

const TERMINATE: &str =
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted";

async fn advisory(server: &PostgresServer) -> AdvisoryBackend {
    AdvisoryBackend::connect(&server.url()).await.expect("a connection")
}

/// C8: a client that attached a lease learns soon that the session of the hold has ended, and not only
/// at the next renewal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_an_attached_lease_is_lost_with_the_session_that_holds_it() {
    let server = PostgresServer::start().await;
    let (taker, attacher) = (advisory(&server).await, LockClient::new(advisory(&server).await));
    for (sql, reason) in [
        (TERMINATE, LostReason::Disconnected),
        ("UPDATE leasehold.locks_advisory_grants SET owner = NULL", LostReason::Evicted),
    ] {
        let lease = taker.acquire_lease(&patient(&fresh_name())).await.expect("a free lock");
        let guard = attacher.attach(lease).await.expect("still held");
        server.psql(sql);
        let lost = timeout(Duration::from_secs(3), guard.lost()).await.expect("it is seen");
        assert_eq!(lost, reason);
    }
}

/// C10: a new holder has the advisory lock a moment before it has its token. In that moment the row still
/// names the last holder, which holds nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c10_an_attached_lease_is_not_extended_on_the_lock_of_another() {
    let server = PostgresServer::start().await;
    let (taker, attacher, name) = (advisory(&server).await, advisory(&server).await, fresh_name());
    let lease = taker.acquire_lease(&patient(&name)).await.expect("a free lock");
    let renewal = Renewal::new(&lease, Ttl::new(MINUTE).expect("a good TTL"));
    let extended = attacher.extend_one(&renewal).await.expect("an answer");
    assert_eq!(extended, Extension::Extended(MINUTE));

    let key = "SELECT classid::bigint << 32 | objid::bigint FROM pg_locks \
         WHERE locktype = 'advisory'";
    let lock = format!("SELECT pg_advisory_lock({})", server.psql(key));
    server.psql(TERMINATE);
    let mut other = PgConnection::connect(&server.url()).await.expect("a connection");
    other.execute(AssertSqlSafe(lock)).await.expect("it is free");
    assert_eq!(attacher.extend_one(&renewal).await.expect("an answer"), Extension::Lost);
    let seen = attacher.inspect(lease.name()).await.expect("an answer");
    assert_eq!(seen.holder(), None);
}

/// C14: an eviction that comes after the holder's own release ends no session: the session may hold
/// another lock by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_an_eviction_that_comes_too_late_ends_no_session() {
    let server = PostgresServer::start().await;
    let (client, operator) = (LockClient::new(advisory(&server).await), advisory(&server).await);
    let name = fresh_name();
    let guard = held(&client, &name).await;
    let process = server.psql("SELECT pid FROM pg_locks WHERE locktype = 'advisory'");

    // The eviction has seen that the lock is held, and waits for the row. What is written to the row meanwhile
    // is what a release writes.
    let mut stranger = PgConnection::connect(&server.url()).await.expect("a connection");
    let mut release = stranger.begin().await.expect("begun");
    let written =
        format!("UPDATE leasehold.locks_advisory_grants SET owner = NULL WHERE name = '{name}'");
    release.execute(AssertSqlSafe(written)).await.expect("written");
    let evicting = tokio::spawn({
        let name = name.parse().expect("a good name");
        async move { operator.evict(&name, &Whom::All).await.expect("an answer") }
    });
    until_blocked(&server, 1).await;
    release.commit().await.expect("committed");

    assert_eq!(evicting.await.expect("no panic"), []);
    let alive = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {process}");
    assert_eq!(number(&server, &alive), 1);
    released(guard).await;
    released(held(&client, &fresh_name()).await).await;
    assert_eq!(number(&server, &alive), 1);
}

/// C38: an eviction of one owner leaves another alone who holds the lock by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c38_an_eviction_of_another_owner_ends_no_session() {
    let server = shared().await;
    let (lock, operator) = (advisory(server).await, advisory(server).await);
    let (client, name) = (LockClient::new(lock), fresh_name());
    let guard = held(&client, &name).await;
    let lock_name = name.parse().expect("a good name");
    let gone = Whom::Owner(OwnerId::random().to_string());
    assert_eq!(operator.evict(&lock_name, &gone).await.expect("an answer"), []);
    guard.extend(MINUTE).await.expect("still held");
    let holder = operator.inspect(&lock_name).await.expect("an answer").holders.remove(0);
    let whom = Whom::Owner(holder.owner.expect("one of ours"));
    assert_eq!(operator.evict(&lock_name, &whom).await.expect("an answer").len(), 1);
}
