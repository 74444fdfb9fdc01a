//! Synchronous standbys: no answer depends on a commit that the next primary may lack.

use leasehold::core::backend::DistributedLockExt;
use lock_testkit::Expect;
use lock_testkit::LeaseExt;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use leasehold::core::Ttl;
use leasehold::core::backend::{Attempt, Claim, Extension, Record, Renewal};
use leasehold::postgres::PostgresBackend;
use leasehold::{DistributedLock, Fence, Lease};
use lock_testkit::{PgBouncer, PostgresServer, eventually};
use sqlx::{Connection, Executor, PgConnection};
use tokio::time::{sleep, timeout};

use crate::support::{
    LIMIT, MINUTE, acquiring, client, fresh_name, held, patient, queued, released, served,
};

/// Longer than the longest request on the server, plus a poll.
const LONG_ENOUGH: Duration = Duration::from_secs(4);

/// Makes commits wait for a synchronous standby that does not answer.
async fn lose_the_standby(server: &PostgresServer) {
    server.psql("CREATE TABLE probe (n int)");
    set_standbys(server, "nobody");
    eventually("commits wait", LIMIT, async || commit_waits(server).await).await;
}

/// Makes commits wait for no standby.
pub(crate) fn do_without_standbys(server: &PostgresServer) {
    set_standbys(server, "");
}

fn set_standbys(server: &PostgresServer, names: &str) {
    server.psql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"));
    server.psql("SELECT pg_reload_conf()");
}

/// Returns true if a commit waits. A time-out of the server may end that wait in a procedure only.
async fn commit_waits(server: &PostgresServer) -> bool {
    let mut session = PgConnection::connect(&server.url()).await.expect("a connection");
    session.execute("SET statement_timeout = 300").await.expect("set");
    let began = Instant::now();
    let commit = "DO $$ BEGIN INSERT INTO probe VALUES (1); COMMIT; END $$";
    session.execute(commit).await.expect("told as done");
    began.elapsed() > Duration::from_millis(250)
}

/// P2: a time-out of the server ends the wait of the hand-off's commit for the standby, and the server goes on as
/// if the commit were complete. After a failover the hand-off would be unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_a_hand_off_that_no_synchronous_standby_has_is_not_told() {
    let settings = [&[][..], &["statement_timeout=700ms"], &["statement_timeout=100ms"]];
    join_all(settings.map(async |settings| {
        let server = PostgresServer::start_with(settings).await;
        let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
        let name = fresh_name();
        let guard = held(&holder, &name).await;
        let waiting = queued(&waiter, &holder, patient(&name), &name).await;
        lose_the_standby(&server).await;
        released(guard).await;
        sleep(LONG_ENOUGH).await;
        assert!(!waiting.is_finished(), "{settings:?}: a failover would not know the new holder");
        do_without_standbys(&server);
        released(served(waiting).await).await;
    }))
    .await;
}

/// P2: the same for all other answers that a client relies on, over a session and through a pooler.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_nothing_that_no_synchronous_standby_has_is_told() {
    let server = PostgresServer::start().await;
    let pooler = PgBouncer::start(&server).await;
    let (direct, pooled) = (Acts::prepare(&server.url()).await, Acts::prepare(&pooler.url()).await);
    lose_the_standby(&server).await;
    let told = join_all([&direct, &pooled].map(Acts::told)).await;
    assert_eq!(told, [Vec::<&str>::new(), Vec::new()]);
}

/// Requests to a server, with their parameters.
struct Acts {
    url: String,
    leases: Vec<Lease>,
}

impl Acts {
    async fn prepare(url: &str) -> Self {
        let lock = PostgresBackend::connect(url).await.expect("a connection");
        let names = [(); 2].map(|()| fresh_name());
        let mut leases = Vec::new();
        for name in names {
            leases.push(lock.acquire_lease(&patient(&name)).await.expect("a free lock"));
        }
        Self { url: url.to_owned(), leases }
    }

    /// Returns the acts that were confirmed.
    async fn told(&self) -> Vec<&'static str> {
        let lock = PostgresBackend::connect(&self.url).await.expect("a connection");
        let exclusive = patient(&fresh_name()).claim().expect("a good claim");
        let shared = patient(&fresh_name()).shared().claim().expect("a good claim");
        let ttl = Ttl::new(MINUTE * 2).expect("a good TTL");
        let renewal = Renewal::new(&self.leases[0], ttl);
        let occurrence = "tonight".parse().expect("a good occurrence");
        let record = Record::new(&self.leases[1], occurrence, MINUTE).expect("a good span");
        let fence = lock.fence(fresh_name());
        let acts: [(&str, BoxFuture<'_, bool>); 5] = [
            ("acquire", is_granted(&lock, &exclusive).boxed()),
            ("acquire beside", is_granted(&lock, &shared).boxed()),
            (
                "extend",
                async { matches!(lock.extend_one(&renewal).await, Ok(Extension::Extended(_))) }
                    .boxed(),
            ),
            ("record", async { lock.expect_run_records().record(&record).await.is_ok() }.boxed()),
            ("fence", async { fence.advance(self.leases[0].token()).await.is_ok() }.boxed()),
        ];
        let told = acts.map(async |(act, told)| (act, timeout(LONG_ENOUGH, told).await));
        let told = join_all(told).await.into_iter().filter(|(_, told)| *told == Ok(true));
        told.map(|(act, _)| act).collect()
    }
}

async fn is_granted(lock: &PostgresBackend, claim: &Claim) -> bool {
    matches!(lock.acquire(claim, None).await, Ok(Attempt::Granted(_)))
}

/// Starts a synchronous standby.
pub(crate) async fn synchronous_standby(server: &PostgresServer) -> PostgresServer {
    let standby = server.standby().await;
    set_standbys(server, "*");
    let synchronous = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    eventually("it is synchronous", LIMIT, async || server.psql(synchronous) == "1").await;
    standby
}

/// P2: while a real standby is stopped, no hand-off is announced. After its promotion the standby knows
/// everything that was answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_a_synchronous_standby_that_takes_over_knows_the_hand_off_that_was_told() {
    let mut server = PostgresServer::start().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let standby = synchronous_standby(&server).await;
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    standby.stop();
    released(guard).await;
    sleep(LONG_ENOUGH).await;
    assert!(!waiting.is_finished(), "a standby that takes over would not know the new holder");
    standby.cont();
    let next = served(waiting).await;
    server.kill();
    standby.psql("SELECT pg_promote()");
    let known = client(&standby.url()).await.admin().inspect(&name).await.expect("an answer");
    assert_eq!(known.holder().and_then(|holder| holder.token), Some(next.token()));
}

/// P1: after an operator cancelled a commit that waited for the standby, a failover forgets the grant. Two believe
/// then, as documented, and the second has the greater token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p1_tokens_grow_though_a_failover_forgets_a_grant_whose_commit_was_cancelled() {
    const CANCEL: &str =
        "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let mut server = PostgresServer::start().await;
    let (first, name) = (client(&server.url()).await, fresh_name());
    let standby = synchronous_standby(&server).await;
    standby.psql("ALTER SYSTEM SET primary_conninfo = ''");
    standby.psql("SELECT pg_reload_conf()");
    let receivers = "SELECT count(*) FROM pg_stat_wal_receiver";
    eventually("it follows no more", LIMIT, async || standby.psql(receivers) == "0").await;
    let asking = acquiring(&first, patient(&name));
    eventually("its commit is cancelled", LIMIT, async || server.psql(CANCEL) != "0").await;
    let before = served(asking).await;
    server.kill();
    standby.psql("SELECT pg_promote()");
    do_without_standbys(&standby);
    let after = held(&client(&standby.url()).await, &name).await;
    assert!(before.is_held() && before.token() < after.token());
}
