//! The stores of the tests, and acts on them that bypass `leasehold`.

use std::fs;
use std::time::Duration;

use leasehold::LockRequest;
use lock_testkit::{RedisServer, Reply};
use tempfile::TempDir;

/// Time for which a foreign holder holds.
const FOREIGN: Duration = Duration::from_secs(20);

/// A store for one test.
pub(crate) trait Store: Sync {
    /// Name of its snapshots.
    const NAME: &'static str;

    /// Time beyond its TTL for which the hold of a dead holder lasts.
    const OUTLASTS: Duration = Duration::ZERO;

    fn url(&self) -> String;

    /// Deletes all holds.
    async fn wipe(&self);

    /// Takes the lock as another client for 20 s, if it is free.
    async fn foreign_take(&self, name: &str) -> bool {
        let client = leasehold::connect(&self.url()).await.expect("a connection");
        let request = LockRequest::new(name).ttl(FOREIGN);
        let guard = client.try_acquire(request).await.expect("an answer");
        guard.map(|guard| guard.detach().expect("held")).is_some()
    }

    /// Stops the server, which then answers nothing; `false` if there is no server.
    fn stop(&self) -> bool {
        false
    }

    /// Continues the server.
    fn go_on(&self) {}
}

/// A directory.
pub(crate) struct File(TempDir);

impl File {
    pub(crate) fn start() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }
}

impl Store for File {
    const NAME: &'static str = "file";

    fn url(&self) -> String {
        format!("file:{}", self.0.path().display())
    }

    async fn wipe(&self) {
        for entry in fs::read_dir(self.0.path()).expect("the directory") {
            fs::remove_file(entry.expect("an entry").path()).expect("a file");
        }
    }
}

/// A Redis server.
pub(crate) struct Redis(pub(crate) RedisServer);

impl Redis {
    pub(crate) async fn start() -> Self {
        Self(RedisServer::start().await)
    }
}

impl Store for Redis {
    const NAME: &'static str = "redis";

    fn url(&self) -> String {
        self.0.url()
    }

    async fn wipe(&self) {
        self.0.cli(&["FLUSHALL"]);
    }

    /// Sends the command by which clients in other languages take a lock.
    async fn foreign_take(&self, name: &str) -> bool {
        let ttl = FOREIGN.as_millis().to_string();
        match self.0.cli(&["SET", name, "x", "NX", "PX", &ttl]) {
            Reply::Text(ok) => ok == "OK",
            Reply::Nil => false,
            other => panic!("not an answer to SET: {other:?}"),
        }
    }

    fn stop(&self) -> bool {
        self.0.stop();
        true
    }

    fn go_on(&self) {
        self.0.cont();
    }
}

/// Three Redis servers, a majority of which decides.
pub(crate) struct Quorum([RedisServer; 3]);

impl Quorum {
    pub(crate) async fn start() -> Self {
        let (a, b, c) = (RedisServer::start(), RedisServer::start(), RedisServer::start());
        Self([a.await, b.await, c.await])
    }
}

impl Store for Quorum {
    const NAME: &'static str = "redis-quorum";

    fn url(&self) -> String {
        let [a, b, c] = &self.0;
        format!("redis-quorum://{},{},{}", a.addr(), b.addr(), c.addr())
    }

    async fn wipe(&self) {
        self.0.iter().for_each(|server| drop(server.cli(&["FLUSHALL"])));
    }

    fn stop(&self) -> bool {
        self.0.iter().for_each(RedisServer::stop);
        true
    }
}

/// An etcd server.
#[cfg(feature = "etcd")]
pub(crate) struct Etcd(lock_testkit::EtcdServer);

#[cfg(feature = "etcd")]
impl Etcd {
    pub(crate) async fn start() -> Self {
        Self(lock_testkit::EtcdServer::start().await)
    }
}

#[cfg(feature = "etcd")]
impl Store for Etcd {
    const NAME: &'static str = "etcd";
    /// Two seconds of the session, and one of the server.
    const OUTLASTS: Duration = Duration::from_secs(3);

    fn url(&self) -> String {
        self.0.url()
    }

    async fn wipe(&self) {
        self.0.ctl(&["del", "", "--from-key"]);
    }

    fn stop(&self) -> bool {
        self.0.stop();
        true
    }

    fn go_on(&self) {
        self.0.cont();
    }
}

/// A Postgres server.
#[cfg(feature = "postgres")]
pub(crate) struct Postgres(lock_testkit::PostgresServer);

#[cfg(feature = "postgres")]
impl Postgres {
    pub(crate) async fn start() -> Self {
        Self(lock_testkit::PostgresServer::start().await)
    }
}

#[cfg(feature = "postgres")]
impl Store for Postgres {
    const NAME: &'static str = "postgres";

    fn url(&self) -> String {
        self.0.url()
    }

    async fn wipe(&self) {
        self.0.psql("TRUNCATE leasehold.locks_grants");
    }

    fn stop(&self) -> bool {
        self.0.stop();
        true
    }

    fn go_on(&self) {
        self.0.cont();
    }
}

/// A ZooKeeper server.
#[cfg(feature = "zookeeper")]
pub(crate) struct ZooKeeper(lock_testkit::ZooKeeperServer);

#[cfg(feature = "zookeeper")]
impl ZooKeeper {
    pub(crate) async fn start() -> Self {
        Self(lock_testkit::ZooKeeperServer::start().await)
    }
}

#[cfg(feature = "zookeeper")]
impl Store for ZooKeeper {
    const NAME: &'static str = "zookeeper";
    /// A third of a TTL of at most 3 s, and ticks.
    const OUTLASTS: Duration = Duration::from_secs(2);

    fn url(&self) -> String {
        self.0.url()
    }

    async fn wipe(&self) {
        let client = leasehold::connect(&self.url()).await.expect("a connection");
        for held in client.admin().list("", 100).await.expect("a listing") {
            client.admin().evict(held.name).await.expect("an answer");
        }
    }

    fn stop(&self) -> bool {
        self.0.stop();
        true
    }

    fn go_on(&self) {
        self.0.cont();
    }
}
