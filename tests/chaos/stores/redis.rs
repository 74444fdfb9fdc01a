//! Redis: one server, a quorum, and servers that replace each other.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{DistributedLock, LockError};
use lock_testkit::chaos::{
    Fault, Register, SERVER_FAULTS, Store, Victim, clock_faults, settle_clock, strike_clock,
    strike_server,
};
use lock_testkit::{RedisCluster, RedisSentinels, RedisServer, Reply};
use tokio::time::{sleep, timeout};

use crate::registers;

/// Silence after which sentinels replace a primary: longer than any other fault, so that a run decides.
const NEVER: Duration = Duration::from_secs(60);

/// Silence after which servers replace a primary by themselves, while a fault waits for it.
const SOON: Duration = Duration::from_secs(1);

/// Longest time of a failover by sentinels.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(8);

/// Silence after which a replica of a cluster takes over: longer than any fault. For twice this time after a failover,
/// the primaries refuse another one.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);

/// The key of a lock of the workers. On a cluster its server is disturbed.
const KEY: &str = "register-a";

/// Keys whose slots are on two servers.
const ELSEWHERE: [&str; 2] = ["bar", "foo"];

/// A failover that an operator asks for.
const FAILED_OVER: &str = "failed-over";

/// Failovers that nobody asks for: the primary is silent until the others vote a replica into its place, and comes
/// back. A stopped primary may answer what it has received before it learns that it was replaced.
const REPLACED: [&str; 2] = ["primary-killed", "primary-stopped"];

/// Silences a primary.
fn silence(server: &mut RedisServer, fault: &str) {
    match fault == REPLACED[0] {
        true => server.kill(),
        false => server.stop(),
    }
}

/// Ends what [`silence`] began.
async fn bring_back(server: &mut RedisServer, fault: &str) {
    match fault == REPLACED[0] {
        true => server.restart().await,
        false => server.cont(),
    }
}

/// A server that keeps everything that it answered, unless an operator flushes it or sets its clock.
pub(crate) struct Redis(RedisServer);

impl Store for Redis {
    const NAME: &str = "redis";

    async fn start(_folder: &Path) -> Self {
        Self(RedisServer::start_with_clock(&RedisServer::DURABLE).await)
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.0.addr())
    }

    fn url(&self, network: Option<SocketAddr>) -> String {
        format!("redis://{}/", network.unwrap_or(self.0.addr()))
    }

    async fn records(&self) -> u64 {
        keys(&self.0)
    }

    fn faults(&self) -> Vec<Fault> {
        let scripts = Fault::new(Victim::Server, "scripts-flushed");
        let clients = Fault::new(Victim::Server, "connections-killed");
        let keys = Fault::new(Victim::Server, "locks-deleted").that_loses();
        [&SERVER_FAULTS[..], &[scripts, clients, keys], &clock_faults(self.0.clock())].concat()
    }

    fn settle(&mut self) {
        settle_clock(self.0.clock());
    }

    async fn strike(&mut self, fault: &str, span: Duration) {
        match fault {
            "clock-back" | "clock-forward" => strike_clock(self.0.clock(), fault, span).await,
            "scripts-flushed" => drop(self.0.cli(&["SCRIPT", "FLUSH"])),
            "connections-killed" => drop(self.0.cli(&["CLIENT", "KILL", "TYPE", "normal"])),
            "locks-deleted" => registers::delete_locks(&self.0),
            _ => strike_server(&mut self.0, fault, span).await,
        }
    }

    connects_by_url!();
}

fn keys(server: &RedisServer) -> u64 {
    match server.cli(&["DBSIZE"]) {
        Reply::Integer(keys) => keys as u64,
        other => panic!("no number of keys: {other:?}"),
    }
}

/// A quorum of three servers, one of which is disturbed at a time, in turn. A killed server loses its data.
pub(crate) struct RedisQuorum {
    servers: Vec<RedisServer>,
    struck: usize,
}

impl Store for RedisQuorum {
    const NAME: &str = "redis-quorum";
    /// A server that lost its data stays out for the longest TTL in use, once it is known that it was restarted.
    const OUTLASTS: Duration = Duration::from_secs(9);

    async fn start(_folder: &Path) -> Self {
        Self { servers: join_all((0..3).map(|_| RedisServer::start())).await, struck: 0 }
    }

    fn address(&self) -> Option<SocketAddr> {
        self.servers.first().map(RedisServer::addr)
    }

    fn url(&self, network: Option<SocketAddr>) -> String {
        let own = self.servers.iter().map(RedisServer::addr);
        let addresses = network.into_iter().chain(own.skip(network.iter().len()));
        let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
        format!("redis-quorum://{}", addresses.join(","))
    }

    async fn records(&self) -> u64 {
        self.servers.iter().map(keys).sum()
    }

    fn faults(&self) -> Vec<Fault> {
        SERVER_FAULTS.to_vec()
    }

    async fn strike(&mut self, fault: &str, span: Duration) {
        self.struck = (self.struck + 1) % self.servers.len();
        strike_server(&mut self.servers[self.struck], fault, span).await;
    }

    connects_by_url!();
}

/// A primary with two replicas, which sentinels replace on demand, or when it is silent. Replication is asynchronous,
/// so a failover may lose the last writes.
pub(crate) struct Sentinels(RedisSentinels);

impl Sentinels {
    fn primary(&self) -> usize {
        self.0.primary().expect("the sentinels agree")
    }

    fn replace_after(&self, silence: Duration) {
        let millis = silence.as_millis().to_string();
        self.0.ask_sentinels(&["SENTINEL", "SET", "mymaster", "down-after-milliseconds", &millis]);
    }
}

impl Store for Sentinels {
    const NAME: &str = "redis-sentinel";

    async fn start(_folder: &Path) -> Self {
        Self(RedisSentinels::start(NEVER).await)
    }

    fn url(&self, _network: Option<SocketAddr>) -> String {
        self.0.url()
    }

    async fn records(&self) -> u64 {
        keys(&self.0.servers()[self.primary()])
    }

    fn faults(&self) -> Vec<Fault> {
        let [stopped, slow, _] = SERVER_FAULTS;
        let losing = [FAILED_OVER, REPLACED[0], REPLACED[1]];
        let losing = losing.map(|name| Fault::new(Victim::Server, name).that_loses());
        [&[stopped, slow], &losing[..]].concat()
    }

    async fn strike(&mut self, fault: &str, span: Duration) {
        let primary = self.primary();
        if REPLACED.contains(&fault) {
            self.replace_after(SOON);
            silence(self.0.server(primary), fault);
            self.0.until_replaced(primary).await;
            self.replace_after(NEVER);
            bring_back(self.0.server(primary), fault).await;
            return self.0.until_replicated().await;
        }
        if fault != FAILED_OVER {
            return strike_server(self.0.server(primary), fault, span).await;
        }
        // Sentinels give a failover up that meets an unready replica.
        let replaced = async || {
            self.0.fail_over().await;
            timeout(GIVEN_UP_AFTER, self.0.until_replaced(primary)).await
        };
        while replaced().await.is_err() {}
        self.0.until_replicated().await;
    }

    connects_by_url!();
}

/// A cluster whose primaries are replaced on demand, without a loss, or when they are silent, and whose slots move.
pub(crate) struct Cluster(RedisCluster);

impl Cluster {
    fn replace_after(&self, silence: Duration) {
        let millis = silence.as_millis().to_string();
        for server in self.0.servers() {
            server.cli(&["CONFIG", "SET", "cluster-node-timeout", &millis]);
        }
    }
}

impl Store for Cluster {
    const NAME: &str = "redis-cluster";

    async fn start(_folder: &Path) -> Self {
        Self(RedisCluster::start(NODE_TIMEOUT).await)
    }

    fn url(&self, _network: Option<SocketAddr>) -> String {
        self.0.url()
    }

    async fn records(&self) -> u64 {
        self.0.servers().iter().map(keys).sum()
    }

    fn faults(&self) -> Vec<Fault> {
        let [stopped, slow, _] = SERVER_FAULTS;
        let [failed_over, moved] =
            [FAILED_OVER, "slot-moved"].map(|name| Fault::new(Victim::Server, name));
        let replaced = REPLACED.map(|name| Fault::new(Victim::Server, name).that_loses());
        [&[stopped, slow, failed_over, moved], &replaced[..]].concat()
    }

    async fn strike(&mut self, fault: &str, span: Duration) {
        let primary = self.0.primary_of(KEY);
        match fault {
            FAILED_OVER => {
                let replaced = async || {
                    self.0.fail_over(primary);
                    timeout(NODE_TIMEOUT, self.0.until_replaced(primary, KEY)).await
                };
                while replaced().await.is_err() {}
                self.0.until_whole().await;
            }
            "slot-moved" => {
                let others = ELSEWHERE.map(|key| self.0.primary_of(key));
                let to = others.into_iter().find(|other| *other != primary);
                let to = to.expect("there are three primaries");
                self.0.begin_move(KEY, to);
                sleep(span).await;
                self.0.move_keys(KEY, to);
                self.0.end_move(KEY, to).await;
            }
            _ if REPLACED.contains(&fault) => {
                self.replace_after(SOON);
                silence(self.0.server(primary), fault);
                self.0.until_replaced(primary, KEY).await;
                bring_back(self.0.server(primary), fault).await;
                self.0.until_whole().await;
                self.replace_after(NODE_TIMEOUT);
            }
            _ => strike_server(self.0.server(primary), fault, span).await,
        }
    }

    connects_by_url!();
}
