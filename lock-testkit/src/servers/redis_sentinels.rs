//! A Redis primary with replicas, and the sentinels that replace it.

use std::time::Duration;

use futures_util::future::join_all;

use super::certificates::{Certificates, arguments};
use super::free_port;
use super::redis_cluster::cut_off;
use super::redis_sentinel::RedisSentinel;
use super::redis_server::RedisServer;
use super::resp::Reply;
use crate::eventually;
use crate::process::signal;

const REPLICAS: usize = 2;
const SENTINELS: usize = 3;

/// Name of the primary among sentinels.
const NAME: &str = "mymaster";

/// Limit for a very busy machine; sentinels hear of each other every two seconds, and a failover takes a few.
const LIMIT: Duration = Duration::from_secs(60);

/// A primary, two replicas and three sentinels. A test can disturb each of them separately.
#[derive(Debug)]
pub struct RedisSentinels {
    sentinels: Vec<RedisSentinel>,
    servers: Vec<RedisServer>,
    certificates: Option<Certificates>,
}

impl RedisSentinels {
    /// Starts all servers, and returns once each sentinel knows all others. The sentinels replace a primary that
    /// is silent for `down_after`.
    ///
    /// # Panics
    /// As [`RedisServer::start`], and if the sentinels do not agree within a minute.
    pub async fn start(down_after: Duration) -> Self {
        Self::launch(down_after, None).await
    }

    /// Like [`start`](Self::start), with servers and sentinels that speak TLS with each other, and with clients
    /// that trust the authority of the [`certificates`](Self::certificates) and have one of their own.
    ///
    /// # Panics
    /// As [`start`](Self::start), and if `openssl` is not installed.
    pub async fn start_tls(down_after: Duration) -> Self {
        Self::launch(down_after, Some(Certificates::new())).await
    }

    async fn launch(down_after: Duration, certificates: Option<Certificates>) -> Self {
        let tls = || certificates.as_ref().map(|certificates| certificates.settings(free_port()));
        let primary = start_one(tls(), &[]).await;
        let port = primary.announced_port().to_string();
        let follow = ["--replicaof", "127.0.0.1", &port];
        let mut servers = vec![primary];
        servers.extend(join_all((0..REPLICAS).map(|_| start_one(tls(), &follow))).await);
        let watch = watching(&port, down_after);
        let mut started = Self { sentinels: Vec::new(), servers, certificates: None };
        // Sentinels look for replicas when they start, and after that only every ten seconds.
        started.until_replicated().await;
        started.sentinels = (0..SENTINELS).map(|_| RedisSentinel::launch(tls(), &watch)).collect();
        started.until_agreed().await;
        Self { certificates, ..started }
    }

    /// Returns the URL for clients: `redis-sentinel://127.0.0.1:…,127.0.0.1:…,127.0.0.1:…/mymaster`, or
    /// `rediss-sentinel://…` with TLS.
    pub fn url(&self) -> String {
        let address = |sentinel: &RedisSentinel| format!("127.0.0.1:{}", sentinel.announced_port());
        let addresses: Vec<String> = self.sentinels.iter().map(address).collect();
        let scheme = if self.certificates.is_some() { "rediss" } else { "redis" };
        format!("{scheme}-sentinel://{}/{NAME}", addresses.join(","))
    }

    /// Returns the certificates of servers with TLS.
    ///
    /// # Panics
    /// If the servers do not use TLS.
    pub fn certificates(&self) -> &Certificates {
        self.certificates.as_ref().expect("they speak TLS")
    }

    /// Returns the servers, the first primary first.
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

    /// Returns the number of the server that all sentinels name; `None` if they disagree.
    pub fn primary(&self) -> Option<usize> {
        let mut ports = self.sentinels.iter().map(|sentinel| sentinel.port_of_primary(NAME));
        let first = ports.next()??;
        let all_agree = ports.all(|port| port == Some(first));
        let named = self.servers.iter().position(|server| server.announced_port() == first);
        named.filter(|_| all_agree)
    }

    /// Waits until all sentinels name another primary than the server `number`, and that server reports the role
    /// itself; returns its number.
    ///
    /// # Panics
    /// If that takes more than a minute.
    pub async fn until_replaced(&self, number: usize) -> usize {
        let mut found = None;
        eventually("a replica takes over", LIMIT, async || {
            found = self.primary().filter(|primary| *primary != number);
            found.is_some_and(|found| has(&self.servers[found], "role:master"))
        })
        .await;
        found.expect("just seen")
    }

    /// Waits until all servers except the primary follow it and have its data, and each sentinel has ended its
    /// failovers: it never ends one whose promoted replica is gone.
    ///
    /// # Panics
    /// If that takes more than a minute.
    pub async fn until_replicated(&self) {
        eventually("the replicas follow", LIMIT, async || {
            let follows = |server: &&RedisServer| has(server, "master_link_status:up");
            let has_ended = |sentinel: &RedisSentinel| {
                let told = sentinel.session().call(&["SENTINEL", "MASTER", NAME]);
                field_of(&told, "flags") == Some("master")
            };
            self.servers.iter().filter(follows).count() == REPLICAS
                && self.sentinels.iter().all(has_ended)
        })
        .await;
    }

    /// Makes the sentinels replace the primary, although it is healthy. Returns once the failover has begun; an
    /// earlier one ends first.
    ///
    /// # Panics
    /// If the sentinels refuse for a minute.
    pub async fn fail_over(&self) {
        eventually("the sentinels begin a failover", LIMIT, async || {
            let reply = self.sentinels[0].session().call(&["SENTINEL", "FAILOVER", NAME]);
            reply.to_string() == "OK"
        })
        .await;
    }

    /// Makes the server `number` follow no other: it stays a primary when the sentinels replace it.
    pub fn keep_a_primary(&self, number: usize) {
        self.servers[number].cli(&["ACL", "SETUSER", "default", "-replicaof", "-slaveof"]);
    }

    /// Starts one more sentinel, which is cut off from the others: it names the server `number`, whatever they
    /// do.
    ///
    /// # Panics
    /// If it does not answer within a minute.
    pub async fn start_stale(&self, number: usize) -> RedisSentinel {
        // This sentinel watches the servers as a user that receives no messages of other sentinels.
        for server in &self.servers {
            server.cli(&["ACL", "SETUSER", "deaf", "on", ">deaf", "+@all", "~*", "resetchannels"]);
        }
        let port = self.servers[number].announced_port().to_string();
        let watching = watching(&port, LIMIT * 2);
        let login = format!("sentinel auth-user {NAME} deaf\nsentinel auth-pass {NAME} deaf\n");
        let stale = RedisSentinel::launch(None, &(watching + &login));
        let names = || stale.try_session()?.try_call(&["SENTINEL", "MASTER", NAME]);
        eventually("the sentinel answers", LIMIT, async || names().is_ok()).await;
        stale
    }

    /// Ends all sentinels.
    pub fn end_sentinels(&mut self) {
        self.sentinels.clear();
    }

    /// Runs one command on each sentinel.
    pub fn ask_sentinels(&self, command: &[&str]) -> Vec<Reply> {
        self.sentinels.iter().map(|sentinel| sentinel.session().call(command)).collect()
    }

    /// Cuts off the replicas of the server `number`: they keep their data, and receive no more changes.
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

/// Starts a server; without TLS it gets no settings for TLS.
async fn start_one(tls: Option<Vec<(&str, String)>>, more: &[&str]) -> RedisServer {
    let tls = arguments(&tls.unwrap_or_default());
    let args: Vec<&str> = tls.iter().map(String::as_str).chain(more.iter().copied()).collect();
    RedisServer::start_with(&args).await
}

/// Returns the configuration of a sentinel that watches the primary at `port`.
fn watching(port: &str, down_after: Duration) -> String {
    format!(
        "sentinel monitor {NAME} 127.0.0.1 {port} 2\n\
         sentinel down-after-milliseconds {NAME} {}\n\
         sentinel failover-timeout {NAME} 5000\n\
         sentinel parallel-syncs {NAME} 2\n",
        down_after.as_millis()
    )
}

/// Returns one value of a reply that lists names and values in turn.
fn field_of<'a>(reply: &'a Reply, name: &str) -> Option<&'a str> {
    let Reply::Array(parts) = reply else { return None };
    let position = parts.iter().position(|part| *part == Reply::Text(name.to_owned()))?;
    parts.get(position + 1).map(Reply::text)
}

/// Returns true if a running server reports `line` about its replication.
fn has(server: &RedisServer, line: &str) -> bool {
    // A server whose role changes closes its connections.
    let info = || server.session().try_call(&["INFO", "replication"]);
    let says = |info: Reply| info.text().lines().any(|other| other == line);
    signal::is_running(server.pid()) && info().is_ok_and(says)
}
