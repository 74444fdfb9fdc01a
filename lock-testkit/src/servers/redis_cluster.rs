//! A Redis Cluster.

use std::time::Duration;

use futures_util::future::join_all;

use super::certificates::{Certificates, arguments};
use super::free_port;
use super::redis_server::{RedisServer, owned};
use super::resp::Reply;
use crate::eventually;
use crate::process::signal;

const PRIMARIES: usize = 3;

/// One replica for each primary.
const SERVERS: usize = 2 * PRIMARIES;

const SLOTS: usize = 16384;

/// Limit for a very busy machine; a cluster is ready after two seconds, and a failover takes a few time-outs of
/// its servers.
const LIMIT: Duration = Duration::from_secs(60);

/// A cluster of three primaries and three replicas. A test can disturb each of them separately. The death of a
/// primary stops only its own slots. Needs Redis 7.
#[derive(Debug)]
pub struct RedisCluster {
    servers: Vec<RedisServer>,
    certificates: Option<Certificates>,
}

impl RedisCluster {
    /// Starts a cluster, and returns once all servers agree that it is complete. A replica replaces a primary
    /// that is silent for `node_timeout`.
    ///
    /// # Panics
    /// As [`RedisServer::start`], and if the servers do not agree within a minute.
    pub async fn start(node_timeout: Duration) -> Self {
        Self::launch(node_timeout, None).await
    }

    /// Like [`start`](Self::start), with servers that speak TLS with each other, and with clients that trust
    /// the authority of the [`certificates`](Self::certificates) and have one of their own.
    ///
    /// # Panics
    /// As [`start`](Self::start), and if `openssl` is not installed.
    pub async fn start_tls(node_timeout: Duration) -> Self {
        Self::launch(node_timeout, Some(Certificates::new())).await
    }

    async fn launch(node_timeout: Duration, certificates: Option<Certificates>) -> Self {
        let timeout = node_timeout.as_millis().to_string();
        let start_one = || start_one(&timeout, certificates.as_ref());
        let servers = join_all((0..SERVERS).map(|_| start_one())).await;
        let cluster = Self { servers, certificates };
        cluster.give_slots();
        cluster.introduce().await;
        cluster.give_replicas().await;
        cluster.until_whole().await;
        cluster
    }

    /// Returns the URL for clients: `redis-cluster://127.0.0.1:…,127.0.0.1:…`, or `rediss-cluster://…` with TLS.
    pub fn url(&self) -> String {
        let address = |server: &RedisServer| format!("127.0.0.1:{}", server.announced_port());
        let addresses: Vec<String> = self.servers.iter().map(address).collect();
        let scheme = if self.certificates.is_some() { "rediss" } else { "redis" };
        format!("{scheme}-cluster://{}", addresses.join(","))
    }

    /// Returns the certificates of servers with TLS.
    ///
    /// # Panics
    /// If the cluster does not use TLS.
    pub fn certificates(&self) -> &Certificates {
        self.certificates.as_ref().expect("it speaks TLS")
    }

    /// Returns the servers.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// Returns one server, for a test to disturb.
    ///
    /// # Panics
    /// If no server has that number.
    pub fn server(&mut self, number: usize) -> &mut RedisServer {
        &mut self.servers[number]
    }

    /// Returns the number of the server that has the slot of `key`, as a running server reports it.
    ///
    /// # Panics
    /// If no server runs, or none has the slot.
    pub fn primary_of(&self, key: &str) -> usize {
        let asked = self.running().next().expect("a server runs");
        let slot = asked.cli(&["CLUSTER", "KEYSLOT", key]).integer();
        self.owner(asked, slot).unwrap_or_else(|| panic!("nobody has slot {slot}"))
    }

    /// Runs one command at the server that has the slot of `key`.
    ///
    /// # Panics
    /// As [`RedisServer::cli`].
    pub fn cli(&self, key: &str, command: &[&str]) -> Reply {
        self.servers[self.primary_of(key)].cli(command)
    }

    /// Waits until all running servers report that another server than `number` has the slot of `key`; returns
    /// that server's number.
    ///
    /// # Panics
    /// If that takes more than a minute.
    pub async fn until_replaced(&self, number: usize, key: &str) -> usize {
        let mut found = None;
        eventually("a replica takes over", LIMIT, async || {
            let slot = |server: &RedisServer| server.cli(&["CLUSTER", "KEYSLOT", key]).integer();
            let owners: Vec<_> =
                self.running().map(|server| self.owner(server, slot(server))).collect();
            found = owners[0].filter(|owner| *owner != number);
            owners.iter().all(|owner| owner.is_some() && *owner == found) && self.agree()
        })
        .await;
        found.expect("just seen")
    }

    /// Lets the replica of a healthy primary take its place (`CLUSTER FAILOVER`). The former primary becomes a
    /// replica.
    ///
    /// # Panics
    /// If the replica refuses.
    pub fn fail_over(&self, primary: usize) {
        let replica = (primary + PRIMARIES) % SERVERS;
        let reply = self.servers[replica].cli(&["CLUSTER", "FAILOVER"]);
        assert_eq!(reply.to_string(), "OK");
    }

    /// Waits until all servers run, and agree that the cluster is complete and each primary has its replica.
    ///
    /// # Panics
    /// If that takes more than a minute.
    pub async fn until_whole(&self) {
        eventually("the cluster is whole", LIMIT, async || {
            let roles = self.servers.iter().map(role);
            let primaries = roles.filter(|role| *role == "primary with a replica").count();
            let replicas = self.servers.iter().filter(|server| role(server) == "replica").count();
            primaries == PRIMARIES && replicas == SERVERS - PRIMARIES && self.agree()
        })
        .await;
    }

    /// Begins to move the slot of `key` to the primary `to`. Keys stay where they are.
    ///
    /// # Panics
    /// If a server refuses.
    pub fn begin_move(&self, key: &str, to: usize) {
        let from = self.primary_of(key);
        let slot = self.slot(key);
        let (source, target) = (id(&self.servers[from]), id(&self.servers[to]));
        done(&self.servers[to].cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source]));
        done(&self.servers[from].cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target]));
    }

    /// Moves all keys of the slot of `key`, after the move to the server `to` has begun.
    ///
    /// # Panics
    /// If a server refuses.
    pub fn move_keys(&self, key: &str, to: usize) {
        let (from, port) =
            (&self.servers[self.primary_of(key)], self.servers[to].announced_port().to_string());
        let keys = from.cli(&["CLUSTER", "GETKEYSINSLOT", &self.slot(key), "1000"]);
        for key in keys.array() {
            done(&from.cli(&["MIGRATE", "127.0.0.1", &port, key.text(), "0", "5000"]));
        }
    }

    /// Ends the move of the slot of `key` to the server `to`, which has all its keys. Returns once all running
    /// servers know of it.
    ///
    /// # Panics
    /// If a server refuses, or does not know of it within a minute.
    pub async fn end_move(&self, key: &str, to: usize) {
        let (slot, from, target) = (self.slot(key), self.primary_of(key), id(&self.servers[to]));
        for server in [to, from] {
            done(&self.servers[server].cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &target]));
        }
        let number = slot.parse().expect("a number");
        eventually("all servers know where the slot is", LIMIT, async || {
            self.running().all(|server| self.owner(server, number) == Some(to))
        })
        .await;
    }

    /// Cuts off the replicas of the server `number`: they keep their data, and receive no more changes.
    pub fn cut_replicas_off(&self, number: usize) {
        let port = self.servers[number].announced_port();
        let replicas = self.servers.iter().filter(|server| primary_port(server) == Some(port));
        cut_off(replicas, &self.servers[number]);
    }

    fn slot(&self, key: &str) -> String {
        let asked = self.running().next().expect("a server runs");
        asked.cli(&["CLUSTER", "KEYSLOT", key]).integer().to_string()
    }

    fn running(&self) -> impl Iterator<Item = &RedisServer> {
        self.servers.iter().filter(|server| signal::is_awake(server.pid()))
    }

    /// Returns the owner of a slot, as `asked` reports it.
    fn owner(&self, asked: &RedisServer, slot: i64) -> Option<usize> {
        let shards = asked.cli(&["CLUSTER", "SLOTS"]);
        let mut shards = shards.array().iter().map(Reply::array);
        let shard =
            shards.find(|shard| (shard[0].integer()..=shard[1].integer()).contains(&slot))?;
        let port = shard[2].array()[1].integer();
        self.servers.iter().position(|server| i64::from(server.port()) == port)
    }

    /// Returns true if all running servers know a server for each slot, and serve. A server is well before it knows
    /// of the slots of another.
    fn agree(&self) -> bool {
        let slots = format!("cluster_slots_assigned:{SLOTS}\r\n");
        self.running().all(|server| {
            let info = server.cli(&["CLUSTER", "INFO"]);
            info.text().contains("cluster_state:ok") && info.text().contains(&slots)
        })
    }

    fn give_slots(&self) {
        for (number, server) in self.servers.iter().enumerate() {
            // Different from the start, so that no server has to change its epoch later.
            done(&server.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]));
        }
        for (number, server) in self.servers.iter().take(PRIMARIES).enumerate() {
            let first = SLOTS * number / PRIMARIES;
            let last = SLOTS * (number + 1) / PRIMARIES - 1;
            done(&server.cli(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]));
        }
    }

    /// Makes each server meet every other, so that none depends on gossip.
    async fn introduce(&self) {
        for server in &self.servers {
            for other in self.servers.iter().filter(|other| other.port() != server.port()) {
                let (port, bus) = (other.port().to_string(), bus_port(other));
                done(&server.cli(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]));
            }
        }
        eventually("the servers know each other", LIMIT, async || {
            self.servers.iter().all(|server| {
                let nodes = server.cli(&["CLUSTER", "NODES"]);
                let known = nodes.text().lines().filter(|line| !line.contains("handshake"));
                known.filter(|line| line.contains(" connected")).count() == SERVERS
            })
        })
        .await;
    }

    async fn give_replicas(&self) {
        for number in PRIMARIES..SERVERS {
            let primary = id(&self.servers[number - PRIMARIES]);
            eventually("it becomes a replica", LIMIT, async || {
                self.servers[number].cli(&["CLUSTER", "REPLICATE", &primary]).to_string() == "OK"
            })
            .await;
        }
    }
}

/// Cuts `replicas` off their primary, with the data that they have: it refuses them from now on.
pub(super) fn cut_off<'a>(replicas: impl Iterator<Item = &'a RedisServer>, primary: &RedisServer) {
    for replica in replicas {
        done(&replica.cli(&["CONFIG", "SET", "masterauth", "any"]));
        done(&replica.cli(&["CONFIG", "SET", "masteruser", "nobody"]));
    }
    primary.cli(&["CLIENT", "KILL", "TYPE", "replica"]);
}

async fn start_one(node_timeout: &str, certificates: Option<&Certificates>) -> RedisServer {
    RedisServer::start_anew(|| {
        let bus = free_port().to_string();
        let cluster = ["--cluster-enabled", "yes", "--cluster-port", &bus];
        let timeout = ["--cluster-node-timeout", node_timeout];
        // The loss of one primary must not stop the others.
        let coverage = ["--cluster-require-full-coverage", "no"];
        let tls = certificates.map(|certificates| arguments(&certificates.settings(free_port())));
        let tls_bus = ["--tls-cluster", if tls.is_some() { "yes" } else { "no" }];
        let args = [&cluster[..], &timeout, &coverage, &tls_bus].concat();
        [tls.unwrap_or_default(), owned(&args)].concat()
    })
    .await
}

fn bus_port(server: &RedisServer) -> String {
    server.cli(&["CONFIG", "GET", "cluster-port"]).array()[1].text().to_owned()
}

fn id(server: &RedisServer) -> String {
    server.cli(&["CLUSTER", "MYID"]).text().to_owned()
}

/// Returns the role that a server reports; "replica" only once the replica has its data.
fn role(server: &RedisServer) -> &'static str {
    let info = server.cli(&["INFO", "replication"]);
    let has = |line: &str| info.text().lines().any(|other| other == line);
    match (has("role:master"), has("connected_slaves:1"), has("master_link_status:up")) {
        (true, true, _) => "primary with a replica",
        (false, _, true) => "replica",
        _ => "neither",
    }
}

/// Returns the port of the primary of a running replica.
fn primary_port(server: &RedisServer) -> Option<u16> {
    if !signal::is_running(server.pid()) {
        return None;
    }
    let info = server.cli(&["INFO", "replication"]);
    info.text().lines().find_map(|line| line.strip_prefix("master_port:")?.parse().ok())
}

fn done(reply: &Reply) {
    assert!(!matches!(reply, Reply::Error(_)), "{reply}");
}
