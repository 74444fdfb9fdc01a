//! Facts that only several processes show: kills, pauses, and increments of one file, on the file backend and on
//! real servers.

#![allow(clippy::expect_used, clippy::panic)]

/// Makes tests of a check that takes a [`Fixture`]: one on each kind of store.
macro_rules! on_each_store {
    ($name:ident: $check:ident) => {
        mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_files() {
                super::$check(crate::Fixture::files()).await;
            }

            #[cfg(feature = "redis")]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_redis() {
                super::$check(crate::Fixture::redis().await).await;
            }

            #[cfg(feature = "etcd")]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_etcd() {
                super::$check(crate::Fixture::etcd().await).await;
            }

            #[cfg(feature = "postgres")]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                super::$check(crate::Fixture::postgres().await).await;
            }

            #[cfg(feature = "zookeeper")]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_zookeeper() {
                super::$check(crate::Fixture::zookeeper().await).await;
            }
        }
    };
}

#[path = "processes/elections.rs"]
mod elections;
#[path = "processes/kinds.rs"]
mod kinds;
#[path = "processes/roles.rs"]
mod roles;
#[path = "processes/runs.rs"]
mod runs;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::{ClientOptions, Connector, LockRequest, Wait};
use lock_testkit::child;
use tempfile::TempDir;
#[cfg(any(feature = "etcd", feature = "postgres", feature = "zookeeper"))]
use tokio::sync::OnceCell;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Time that a loaded machine may add to a bound of the contract.
const SLACK: Duration = Duration::from_secs(3);

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

const NAME: &str = "shared";

/// Number of locks for which a paused waiter waits.
const LOCKS: usize = 30;

#[test]
fn child_role() {
    child::run(async |role| match role.as_str() {
        "incrementer" => roles::increment().await,
        "holder" => roles::hold().await,
        "waiter" => roles::wait().await,
        "candidate" => elections::campaign_and_observe().await,
        "paused waiter" => roles::wait_for_many().await,
        "pausing writer" => roles::write_after_a_pause().await,
        "mover" => roles::move_both_ways().await,
        "reader" => kinds::read().await,
        "writer" => kinds::write().await,
        "worker" => kinds::work().await,
        "slot keeper" => kinds::keep_a_slot().await,
        "runner" => runs::run().await,
        "short runner" => runs::run_shortly().await,
        other => panic!("no such role: {other}"),
    });
}

/// The store of a test's processes, and its properties.
struct Fixture {
    folder: TempDir,
    url: String,
    /// Number of acquisitions where one is not enough: fewer on slower stores.
    rounds: u64,
    /// Time beyond its TTL for which the hold of a dead holder lasts.
    outlasts: Duration,
    /// Servers of this test alone.
    _server: Option<Box<dyn Send>>,
}

impl Fixture {
    fn files() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("file:{}", folder.path().join("locks").display());
        Self { folder, url, rounds: 1000, outlasts: Duration::ZERO, _server: None }
    }

    #[cfg(feature = "redis")]
    async fn redis() -> Self {
        let server = lock_testkit::RedisServer::start().await;
        Self { url: server.url(), rounds: 200, _server: Some(Box::new(server)), ..Self::files() }
    }

    #[cfg(feature = "etcd")]
    async fn etcd() -> Self {
        static SERVER: OnceCell<lock_testkit::EtcdServer> = OnceCell::const_new();
        let server = SERVER.get_or_init(lock_testkit::EtcdServer::start).await;
        // Two seconds of the session, and one of the server.
        Self { outlasts: Duration::from_secs(3), ..Self::behind_a_prefix(&server.url()) }
    }

    #[cfg(feature = "postgres")]
    async fn postgres() -> Self {
        static SERVER: OnceCell<lock_testkit::PostgresServer> = OnceCell::const_new();
        let server = SERVER.get_or_init(lock_testkit::PostgresServer::start).await;
        Self::behind_a_prefix(&server.url())
    }

    #[cfg(feature = "zookeeper")]
    async fn zookeeper() -> Self {
        static SERVER: OnceCell<lock_testkit::ZooKeeperServer> = OnceCell::const_new();
        let server = SERVER.get_or_init(lock_testkit::ZooKeeperServer::start).await;
        // The session is a third longer than a TTL of at most 4 s.
        Self { outlasts: Duration::from_secs(2), ..Self::behind_a_prefix(&server.url()) }
    }

    /// Uses a server that is slow to start, and that all tests share.
    #[cfg(any(feature = "etcd", feature = "postgres", feature = "zookeeper"))]
    fn behind_a_prefix(server: &str) -> Self {
        let fixture = Self::files();
        let prefix = fixture.folder.path().file_name().expect("it has a name").display();
        Self { url: format!("{server}?prefix={prefix}/"), rounds: 200, ..fixture }
    }

    /// Returns the time within which another gets the lock of a dead holder with this TTL.
    fn bound(&self, ttl: Duration) -> Duration {
        ttl + self.outlasts + Duration::from_secs(1) + SLACK
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn spawn(&self, role: &str, ttl: Duration) -> child::Child {
        self.spawn_with(role, ttl, &[])
    }

    fn spawn_with(&self, role: &str, ttl: Duration, more: &[(&str, &str)]) -> child::Child {
        let folder = self.folder.path().display().to_string();
        let (ttl, rounds) = (ttl.as_millis().to_string(), self.rounds.to_string());
        let url = ("LOCK_URL", &*self.url);
        let common = [url, ("FOLDER", &*folder), ("TTL_MS", &*ttl), ("ROUNDS", &*rounds)];
        child::spawn(role, &[&common, more].concat())
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

fn rounds() -> u64 {
    variable("ROUNDS").parse().expect("a number")
}

fn request() -> LockRequest {
    request_for(NAME)
}

fn request_for(name: &str) -> LockRequest {
    LockRequest::new(name).ttl(ttl()).wait(Wait::Forever)
}

fn ttl() -> Duration {
    Duration::from_millis(variable("TTL_MS").parse().expect("milliseconds"))
}

/// Connects, and waits for longer than usual. The processes of several tests start at once, and keep a server busy.
async fn client() -> leasehold::LockClient {
    let options = ClientOptions::new().request_timeout(PATIENCE);
    let connector = Connector::new().retry_for(PATIENCE * 6);
    connector.connect_with(&variable("LOCK_URL"), options).await.expect("a connection")
}

fn count(file: &Path) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Waits for a turn of a test with many processes. More at a time would leave too little of the machine to the others.
async fn crowd() -> SemaphorePermit<'static> {
    static CROWDS: Semaphore = Semaphore::const_new(2);
    CROWDS.acquire().await.expect("it is never closed")
}

async fn ten_processes_increment(fixture: Fixture) {
    let _turn = crowd().await;
    let mut children: Vec<_> =
        (0..10).map(|_| fixture.spawn("incrementer", Duration::from_secs(30))).collect();
    for said in join_all(children.iter_mut().map(child::Child::line)).await {
        assert_eq!(said, "done");
    }
    assert_eq!(count(&fixture.path("count")), fixture.rounds);
}

on_each_store!(s4_ten_processes_lose_no_increment: ten_processes_increment);

/// C39: two processes that name the same locks in opposite orders never deadlock.
async fn opposite_orders_never_deadlock(fixture: Fixture) {
    let mut movers = [(); 2].map(|()| fixture.spawn("mover", Duration::from_secs(30)));
    for (mover, order) in movers.iter_mut().zip(["a b", "b a"]) {
        assert_eq!(mover.line().await, "ready");
        mover.tell(order).await;
    }
    for _ in 0..10 {
        // A deadlocked process prints nothing more.
        for said in join_all(movers.iter_mut().map(child::Child::line)).await {
            assert_eq!(said, "a tenth");
        }
    }
    let counted = ["a", "b"].map(|lock| count(&fixture.path(lock)));
    assert_eq!(counted, [2 * fixture.rounds; 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c39_opposite_orders_never_deadlock() {
    opposite_orders_never_deadlock(Fixture::files()).await;
}

async fn a_killed_holder_lets_the_next_one_in(fixture: Fixture) {
    let ttl = Duration::from_secs(2);
    let mut holder = fixture.spawn("holder", ttl);
    let first: u64 = holder.line().await.parse().expect("a token");
    let mut waiter = fixture.spawn("waiter", ttl);
    holder.kill().await;
    let killed = Instant::now();
    let second: u64 = waiter.line().await.parse().expect("a token");
    let waited = killed.elapsed();
    assert!(second > first);
    assert!(waited < fixture.bound(ttl), "waited {waited:?}");
}

on_each_store!(c28_a_killed_holder_costs_its_ttl: a_killed_holder_lets_the_next_one_in);

/// C28: waiters are killed and stopped at random, in the queue and as holders; nobody waits longer than the
/// liveness bound plus, for a holder, its TTL (L5).
#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_queue_whose_members_are_killed_never_stalls_for_3_s() {
    use rand::seq::IndexedRandom;

    let fixture = Fixture::redis().await;
    let ttl = Duration::from_millis(1500);
    let mut waiters: Vec<_> = (0..12).map(|_| fixture.spawn("waiter", ttl)).collect();
    join_all(waiters.iter_mut().map(child::Child::line)).await;
    let (mut last, mut worst) = (0, Duration::ZERO);
    while waiters.len() > 2 {
        let victim =
            *(0..waiters.len()).collect::<Vec<_>>().choose(&mut rand::rng()).expect("some");
        let mut victim = waiters.swap_remove(victim);
        match waiters.len() % 3 {
            0 => victim.stop(),
            _ => victim.kill().await,
        }
        let struck = Instant::now();
        // Every survivor gets in again, with greater tokens than before.
        let said = join_all(waiters.iter_mut().map(fresh_line)).await;
        worst = worst.max(struck.elapsed());
        let newest = said.into_iter().max().expect("some are left");
        assert!(newest > last, "{newest} after {last}");
        last = newest;
        drop(victim);
    }
    assert!(worst < Duration::from_secs(3) + ttl + SLACK, "a stall of {worst:?}");
}

/// Returns the next token that a child prints after its present output.
#[cfg(feature = "redis")]
async fn fresh_line(child: &mut child::Child) -> u64 {
    let soon = Duration::from_millis(1);
    while tokio::time::timeout(soon, child.line()).await.is_ok() {}
    child.line().await.parse().expect("a token")
}

/// P1: a holder that is paused past its TTL damages a resource that does not check tokens (the positive control),
/// and is refused by a resource that does.
async fn a_paused_holder_is_refused_by_the_fence(fixture: Fixture) {
    let ttl = Duration::from_secs(1);
    let mut paused = fixture.spawn("pausing writer", ttl);
    assert_eq!(paused.line().await, "read");
    paused.stop();
    let mut next = fixture.spawn("pausing writer", Duration::from_secs(30));
    assert_eq!(next.line().await, "read");
    next.tell("go on").await;
    assert_eq!(next.line().await, "written");
    assert_eq!(next.line().await, "held");
    std::fs::write(fixture.path("unfenced"), "by the next holder").expect("written");

    paused.cont();
    paused.tell("go on").await;
    assert_eq!(paused.line().await, "stale");
    assert_eq!(paused.line().await, "lost");
    assert_eq!(count(&fixture.path("count")), 1);
    let unfenced = std::fs::read_to_string(fixture.path("unfenced")).expect("its text");
    assert_eq!(unfenced, "1", "the harness is blind: the stale write did no damage");
}

on_each_store!(p1_a_paused_holder_is_refused_by_the_fence: a_paused_holder_is_refused_by_the_fence);

/// S3: a waiter is paused while its grant is in flight. The grant expires, and another acquires the lock. When
/// the waiter continues and reads its grant, it must not believe in it.
#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_grant_that_waited_out_its_time_is_not_believed() {
    use lock_testkit::eventually;

    let (fixture, limit) = (Fixture::redis().await, Duration::from_secs(30));
    let client = leasehold::connect(&fixture.url).await.expect("a connection");
    let name = |i: usize| format!("{NAME}-{i}");
    let request = |i| LockRequest::new(name(i)).ttl(limit).wait(Wait::AtMost(limit));
    let queued = async |count| {
        eventually("all are queued", limit, async || {
            let states =
                (0..LOCKS).map(async |i| client.admin().inspect(name(i)).await.expect("an answer"));
            join_all(states).await.iter().all(|state| state.waiters == Some(count))
        })
        .await;
    };
    let mut guards = Vec::new();
    for i in 0..LOCKS {
        guards.push(client.acquire(request(i)).await.expect("a free lock"));
    }
    let mut waiter = fixture.spawn("paused waiter", limit);
    queued(1).await;
    waiter.stop();
    // Each release grants the lock to the stopped waiter. When that grant has expired, this test gets the lock
    // again.
    for guard in guards.drain(..) {
        guard.release().await.expect("an answer");
    }
    for i in 0..LOCKS {
        guards.push(client.acquire(request(i)).await.expect("the waiter's grant expires"));
    }
    waiter.cont();
    queued(1).await;
    for guard in guards {
        guard.release().await.expect("an answer");
    }
    for _ in 0..LOCKS {
        assert_eq!(waiter.line().await, "right");
    }
}
