//! The stores, and the faults of each.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(any(feature = "etcd", feature = "postgres", feature = "redis", feature = "zookeeper"))]
use std::time::Duration;

use leasehold::{DistributedLock, LockError};
#[cfg(any(feature = "postgres", feature = "redis"))]
use lock_testkit::chaos::Victim;
#[cfg(any(feature = "etcd", feature = "postgres", feature = "redis", feature = "zookeeper"))]
use lock_testkit::chaos::{Fault, SERVER_FAULTS, strike_server};
use lock_testkit::chaos::{FileRegister, Register, Store};

use crate::registers;

/// A store, for its workers: they only know a URL.
pub(crate) struct Any;

impl Store for Any {
    const NAME: &str = "any";

    async fn start(_folder: &Path) -> Self {
        Self
    }

    fn url(&self, _network: Option<SocketAddr>) -> String {
        unreachable!("workers are told a URL")
    }

    async fn connect(url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
        leasehold::backend(url).await
    }

    async fn register(
        url: &str,
        folder: &Path,
        name: &str,
    ) -> Result<Arc<dyn Register>, LockError> {
        registers::open(url, folder, name).await
    }
}

/// Common part of all stores.
macro_rules! connects_by_url {
    () => {
        async fn connect(url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
            Any::connect(url).await
        }

        async fn register(
            url: &str,
            folder: &Path,
            name: &str,
        ) -> Result<Arc<dyn Register>, LockError> {
            Any::register(url, folder, name).await
        }
    };
}

/// The memory of this process. Only evictions and dropped futures disturb it.
pub(crate) struct Memory(String);

impl Store for Memory {
    const NAME: &str = "memory";
    const IN_PROCESSES: bool = false;

    async fn start(folder: &Path) -> Self {
        Self(format!("memory:{}", folder.file_name().expect("it has a name").display()))
    }

    fn url(&self, _network: Option<SocketAddr>) -> String {
        self.0.clone()
    }

    connects_by_url!();
}

/// A folder that the workers share. Workers are paused and killed.
pub(crate) struct Files(PathBuf);

impl Store for Files {
    const NAME: &str = "file";

    async fn start(folder: &Path) -> Self {
        Self(folder.join("locks"))
    }

    fn url(&self, _network: Option<SocketAddr>) -> String {
        format!("file:{}", self.0.display())
    }

    async fn records(&self) -> u64 {
        files_in(&self.0)
    }

    connects_by_url!();
}

fn files_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| 1 + files_in(&entry.path())).sum()
}

/// Files whose register has no fence.
pub(crate) struct Unfenced(Files);

impl Store for Unfenced {
    const NAME: &str = "file without a fence";

    async fn start(folder: &Path) -> Self {
        Self(Files::start(folder).await)
    }

    fn url(&self, network: Option<SocketAddr>) -> String {
        format!("{}?prefix=unfenced:", self.0.url(network))
    }

    async fn connect(url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
        Any::connect(url).await
    }

    async fn register(_: &str, folder: &Path, name: &str) -> Result<Arc<dyn Register>, LockError> {
        Ok(Arc::new(FileRegister::unfenced(folder, name)))
    }
}

/// A server that keeps everything that it answered, unless an operator flushes it.
#[cfg(feature = "redis")]
pub(crate) struct Redis(lock_testkit::RedisServer);

#[cfg(feature = "redis")]
impl Store for Redis {
    const NAME: &str = "redis";

    async fn start(_folder: &Path) -> Self {
        Self(lock_testkit::RedisServer::start_with(&lock_testkit::RedisServer::DURABLE).await)
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.0.addr())
    }

    fn url(&self, network: Option<SocketAddr>) -> String {
        format!("redis://{}/", network.unwrap_or(self.0.addr()))
    }

    async fn records(&self) -> u64 {
        match self.0.cli(&["DBSIZE"]) {
            lock_testkit::Reply::Integer(keys) => keys as u64,
            other => panic!("no number of keys: {other:?}"),
        }
    }

    fn faults(&self) -> Vec<Fault> {
        let scripts = Fault::new(Victim::Server, "scripts-flushed");
        let clients = Fault::new(Victim::Server, "connections-killed");
        let keys = Fault::new(Victim::Server, "locks-deleted").that_loses();
        [&SERVER_FAULTS[..], &[scripts, clients, keys]].concat()
    }

    async fn strike(&mut self, fault: &str, span: Duration) {
        match fault {
            "scripts-flushed" => drop(self.0.cli(&["SCRIPT", "FLUSH"])),
            "connections-killed" => drop(self.0.cli(&["CLIENT", "KILL", "TYPE", "normal"])),
            // The marks of fences stay, since they belong to the resource.
            "locks-deleted" => registers::delete_all_but_registers(&self.0),
            _ => strike_server(&mut self.0, fault, span).await,
        }
    }

    connects_by_url!();
}

/// An etcd server of one member.
#[cfg(feature = "etcd")]
pub(crate) struct Etcd(lock_testkit::EtcdServer);

#[cfg(feature = "etcd")]
impl Store for Etcd {
    const NAME: &str = "etcd";
    /// The shortest TTL that etcd grants.
    const TTL: Duration = Duration::from_secs(2);
    /// Two seconds of the session, and one of the server; and a restart gives all leases another TTL.
    const OUTLASTS: Duration = Duration::from_secs(9);

    async fn start(_folder: &Path) -> Self {
        Self(lock_testkit::EtcdServer::start().await)
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.0.addr())
    }

    fn url(&self, network: Option<SocketAddr>) -> String {
        format!("etcd://{}/", network.unwrap_or(self.0.addr()))
    }

    /// The keys and the leases.
    async fn records(&self) -> u64 {
        let keys = self.0.ctl(&["get", "--prefix", "", "--keys-only"]);
        let leases = self.0.ctl(&["lease", "list"]);
        let lines = keys.lines().chain(leases.lines().skip(1));
        lines.filter(|line| !line.is_empty()).count() as u64
    }

    fn faults(&self) -> Vec<Fault> {
        SERVER_FAULTS.to_vec()
    }

    async fn strike(&mut self, fault: &str, span: Duration) {
        strike_server(&mut self.0, fault, span).await;
    }

    connects_by_url!();
}

/// A Postgres server, whose sessions are terminated too.
#[cfg(feature = "postgres")]
pub(crate) struct Postgres(lock_testkit::PostgresServer);

#[cfg(feature = "postgres")]
impl Store for Postgres {
    const NAME: &str = "postgres";

    async fn start(_folder: &Path) -> Self {
        Self(lock_testkit::PostgresServer::start().await)
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.0.addr())
    }

    fn url(&self, network: Option<SocketAddr>) -> String {
        format!("postgres://postgres@{}/postgres", network.unwrap_or(self.0.addr()))
    }

    /// The rows of all tables.
    async fn records(&self) -> u64 {
        const TABLES: &str = "SELECT format('(SELECT count(*) FROM %I.%I)', schemaname, tablename) \
            FROM pg_tables WHERE schemaname = 'leasehold'";
        let counts: Vec<String> = self.0.psql(TABLES).lines().map(str::to_owned).collect();
        let rows = self.0.psql(&format!("SELECT {}", counts.join(" + ")));
        rows.trim().parse().expect("a number")
    }

    fn faults(&self) -> Vec<Fault> {
        let sessions = Fault::new(Victim::Server, "sessions-terminated");
        [&SERVER_FAULTS[..], &[sessions]].concat()
    }

    async fn strike(&mut self, fault: &str, span: Duration) {
        const TERMINATE: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        match fault {
            "sessions-terminated" => drop(self.0.try_psql(TERMINATE)),
            _ => strike_server(&mut self.0, fault, span).await,
        }
    }

    connects_by_url!();
}

/// Delay after a holder's death. A session lasts a third longer than its TTL, and a restart or a change of leader
/// starts it anew.
#[cfg(feature = "zookeeper")]
const SESSIONS_OUTLAST: Duration = Duration::from_secs(9);

/// A ZooKeeper server of one member.
#[cfg(feature = "zookeeper")]
pub(crate) struct ZooKeeper(lock_testkit::ZooKeeperServer);

#[cfg(feature = "zookeeper")]
impl Store for ZooKeeper {
    const NAME: &str = "zookeeper";
    const OUTLASTS: Duration = SESSIONS_OUTLAST;

    async fn start(_folder: &Path) -> Self {
        Self(lock_testkit::ZooKeeperServer::start().await)
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.0.addr())
    }

    fn url(&self, network: Option<SocketAddr>) -> String {
        format!("zookeeper://{}/", network.unwrap_or(self.0.addr()))
    }

    async fn records(&self) -> u64 {
        nodes(&self.0).await
    }

    fn faults(&self) -> Vec<Fault> {
        SERVER_FAULTS.to_vec()
    }

    async fn strike(&mut self, fault: &str, span: Duration) {
        strike_server(&mut self.0, fault, span).await;
    }

    connects_by_url!();
}

/// Returns the number of nodes.
#[cfg(feature = "zookeeper")]
async fn nodes(server: &lock_testkit::ZooKeeperServer) -> u64 {
    let figures = server.ask("mntr").await.expect("an answer");
    let nodes = figures.lines().find_map(|line| line.strip_prefix("zk_znode_count"));
    nodes.and_then(|count| count.trim().parse().ok()).expect("a number of nodes")
}

/// A ZooKeeper ensemble of three members, one of which is disturbed at a time, in turn. The network is the one
/// before the first.
#[cfg(feature = "zookeeper")]
pub(crate) struct ZooKeepers {
    members: lock_testkit::ZooKeeperEnsemble,
    struck: usize,
}

#[cfg(feature = "zookeeper")]
impl Store for ZooKeepers {
    const NAME: &str = "zookeeper-of-three";
    const OUTLASTS: Duration = SESSIONS_OUTLAST;

    async fn start(_folder: &Path) -> Self {
        Self { members: lock_testkit::ZooKeeperServer::start_ensemble(3).await, struck: 0 }
    }

    fn address(&self) -> Option<SocketAddr> {
        self.members.members().first().map(lock_testkit::ZooKeeperServer::addr)
    }

    fn url(&self, network: Option<SocketAddr>) -> String {
        match (self.address(), network) {
            (Some(first), Some(network)) => {
                self.members.url().replace(&first.to_string(), &network.to_string())
            }
            _ => self.members.url(),
        }
    }

    async fn records(&self) -> u64 {
        match self.members.members().first() {
            Some(first) => nodes(first).await,
            None => 0,
        }
    }

    fn faults(&self) -> Vec<Fault> {
        SERVER_FAULTS.to_vec()
    }

    async fn strike(&mut self, fault: &str, span: Duration) {
        self.struck = (self.struck + 1) % self.members.members().len();
        strike_server(self.members.member(self.struck), fault, span).await;
    }

    connects_by_url!();
}
