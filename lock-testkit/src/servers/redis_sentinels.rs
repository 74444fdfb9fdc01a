//! A Redis primary with replicas, and sentinels that replace it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use futures_util::future::join_all;
use tempfile::TempDir;

use super::free_port;
use super::redis_cluster::cut_off;
use super::redis_server::{RedisServer, new_folder};
use super::resp::{Endpoint, Reply, Session};
use crate::eventually;
use crate::process::{Tethered, require, signal};

const REPLICAS: usize = 2;
const SENTINELS: usize = 3;

/// What the sentinels call the primary.
const NAME: &str = "mymaster";

/// Sentinels hear of each other every two seconds, and a failover takes a few; this is for a machine that is very
/// busy.
const LIMIT: Duration = Duration::from_secs(30);

/// A primary, two replicas and three sentinels, each of which can be disturbed by itself.
#[derive(Debug)]
pub struct RedisSentinels {
    sentinels: Vec<Sentinel>,
    servers: Vec<RedisServer>,
}

#[derive(Debug)]
struct Sentinel {
    // Above the folder, because fields are dropped in this order.
    _process: Tethered,
    address: SocketAddr,
    _folder: TempDir,
}

impl RedisSentinels {
    /// Starts all of them, and returns once each sentinel knows of all others. A primary that is silent for
    /// `down_after` is replaced.
    ///
    /// # Panics
    /// As [`RedisServer::start`], and if the sentinels do not agree within thirty seconds.
    pub async fn start(down_after: Duration) -> Self {
        let primary = RedisServer::start().await;
        let port = primary.port().to_string();
        let follow = ["--replicaof", "127.0.0.1", &port];
        let mut servers = vec![primary];
        servers.extend(join_all((0..REPLICAS).map(|_| RedisServer::start_with(&follow))).await);
        let mut started = Self { sentinels: Vec::new(), servers };
        // Sentinels look for replicas at their start, and then only every ten seconds.
        started.until_replicated().await;
        let sentinels = (0..SENTINELS).map(|_| Sentinel::start(&port, down_after));
        started.sentinels = sentinels.collect();
        started.until_agreed().await;
        started
    }

    /// Where clients connect: `redis-sentinel://127.0.0.1:…,127.0.0.1:…,127.0.0.1:…/mymaster`.
    pub fn url(&self) -> String {
        let addresses: Vec<String> =
            self.sentinels.iter().map(|sentinel| sentinel.address.to_string()).collect();
        format!("redis-sentinel://{}/{NAME}", addresses.join(","))
    }

    /// The servers, the first primary first.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// One server, to disturb.
    ///
    /// # Panics
    /// If there is none with that number.
    pub fn server(&mut self, number: usize) -> &mut RedisServer {
        &mut self.servers[number]
    }

    /// The number of the server that all sentinels name, if they agree.
    pub fn primary(&self) -> Option<usize> {
        let mut ports = self.sentinels.iter().map(Sentinel::port_of_primary);
        let first = ports.next()??;
        let all_agree = ports.all(|port| port == Some(first));
        let named = self.servers.iter().position(|server| server.port() == first);
        named.filter(|_| all_agree)
    }

    /// Returns once all sentinels name another primary than the server `number`, and it says so itself; its number.
    ///
    /// # Panics
    /// If that takes more than thirty seconds.
    pub async fn until_replaced(&self, number: usize) -> usize {
        let mut found = None;
        eventually("a replica takes over", LIMIT, async || {
            found = self.primary().filter(|primary| *primary != number);
            found.is_some_and(|found| has(&self.servers[found], "role:master"))
        })
        .await;
        found.expect("just seen")
    }

    /// Returns once all servers but the primary follow it, and have its data.
    ///
    /// # Panics
    /// If that takes more than thirty seconds.
    pub async fn until_replicated(&self) {
        eventually("the replicas follow", LIMIT, async || {
            let follows = |server: &&RedisServer| has(server, "master_link_status:up");
            self.servers.iter().filter(follows).count() == REPLICAS
        })
        .await;
    }

    /// Has the primary replaced, although it is well. Returns once that has begun: an earlier failover ends first.
    ///
    /// # Panics
    /// If the sentinels refuse for thirty seconds.
    pub async fn fail_over(&self) {
        eventually("the sentinels begin a failover", LIMIT, async || {
            let reply = self.sentinels[0].session().call(&["SENTINEL", "FAILOVER", NAME]);
            reply.to_string() == "OK"
        })
        .await;
    }

    /// Cuts the replicas of the server `number` off: they keep what they have, and hear of nothing more.
    pub fn cut_replicas_off(&self, number: usize) {
        let replicas = self
            .servers
            .iter()
            .filter(|server| signal::is_running(server.pid()) && has(server, "role:slave"));
        cut_off(replicas, &self.servers[number]);
    }

    async fn until_agreed(&self) {
        let others = (SENTINELS - 1).to_string();
        eventually("the sentinels know each other", LIMIT, async || {
            self.sentinels.iter().all(|sentinel| {
                let Ok(mut session) = sentinel.try_session() else { return false };
                let told = session.call(&["SENTINEL", "MASTER", NAME]);
                let is = |field, value: &str| field_of(&told, field) == Some(value);
                is("num-slaves", &REPLICAS.to_string()) && is("num-other-sentinels", &others)
            })
        })
        .await;
    }
}

impl Sentinel {
    fn start(primary: &str, down_after: Duration) -> Self {
        require("redis-server", "redis-server", "redis");
        let (folder, port) = (new_folder(), free_port());
        // A sentinel writes what it learns into its file.
        let file = folder.path().join("sentinel.conf");
        let settings = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\n\
             sentinel monitor {NAME} 127.0.0.1 {primary} 2\n\
             sentinel down-after-milliseconds {NAME} {}\n\
             sentinel failover-timeout {NAME} 5000\n\
             sentinel parallel-syncs {NAME} 2\n",
            folder.path().display(),
            down_after.as_millis()
        );
        fs::write(&file, settings).expect("the folder can be written");
        let args = [file.display().to_string(), "--sentinel".to_owned()];
        let process = Tethered::start("redis-server", &args, &folder.path().join("sentinel.log"));
        let address = (Ipv4Addr::LOCALHOST, port).into();
        Self { _process: process, address, _folder: folder }
    }

    fn session(&self) -> Session {
        self.try_session()
            .unwrap_or_else(|error| panic!("no sentinel at {}: {error}", self.address))
    }

    fn try_session(&self) -> std::io::Result<Session> {
        Session::open(&Endpoint::Tcp(self.address))
    }

    fn port_of_primary(&self) -> Option<u16> {
        let told = self.session().call(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]);
        told.array().get(1)?.text().parse().ok()
    }
}

/// A value of a reply that is names and values in turn.
fn field_of<'a>(reply: &'a Reply, name: &str) -> Option<&'a str> {
    let Reply::Array(parts) = reply else { return None };
    let position = parts.iter().position(|part| *part == Reply::Text(name.to_owned()))?;
    parts.get(position + 1).map(Reply::text)
}

/// Whether a server that runs says `line` of its replication.
fn has(server: &RedisServer, line: &str) -> bool {
    // A server whose role changes closes its connections.
    let info = || server.session().try_call(&["INFO", "replication"]);
    let says = |info: Reply| info.text().lines().any(|other| other == line);
    signal::is_running(server.pid()) && info().is_ok_and(says)
}
