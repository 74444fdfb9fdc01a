//! Topologies of several Redis servers, beside one server, and beside rslock on three.
//!
//! Each contender uses five independent servers in its own way: one, or a quorum. Contenders work one after the
//! other, so that only idle servers run beside the measured ones.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use lock_testkit::{RedisCluster, RedisSentinels, RedisServer};

use super::redis::{Rslock, requests};
use super::{Row, Store};
use crate::client::Result;
use crate::contender::Contender;
use crate::cpu;
use crate::ours::{LEASEHOLD, Leasehold};

pub(crate) const SENTINEL: &str = "leasehold sentinel";
pub(crate) const CLUSTER: &str = "leasehold cluster";
pub(crate) const QUORUM_OF_THREE: &str = "leasehold quorum of 3";
pub(crate) const QUORUM_OF_FIVE: &str = "leasehold quorum of 5";
pub(crate) const RSLOCK_ON_THREE: &str = "rslock on 3";

pub(crate) const ROW: Row = Row {
    name: "topologies",
    start: || Box::pin(async { Ok(Box::new(Topologies::start().await) as Box<dyn Store>) }),
    // The first contender is on one server.
    contenders: &[
        LEASEHOLD,
        Contender::of::<Leasehold>(SENTINEL),
        Contender::of::<Leasehold>(CLUSTER),
        Contender::of::<Leasehold>(QUORUM_OF_THREE),
        Contender::of::<Leasehold>(QUORUM_OF_FIVE),
        Contender::of::<Rslock>(RSLOCK_ON_THREE),
    ],
    floor: None,
    wake_up: "none",
};

/// Number of independent servers.
const INDEPENDENT: usize = 5;

/// Number of primaries of the cluster.
const PRIMARIES: usize = 3;

/// Long enough that a busy machine causes no failover.
const DOWN_AFTER: Duration = Duration::from_secs(15);

struct Topologies {
    one: Topology,
    others: Vec<(&'static str, Topology)>,
}

/// The store of one contender.
struct Topology {
    url: String,
    servers: Servers,
}

enum Servers {
    /// The first of these servers, in this number.
    Independent(Arc<[RedisServer]>, usize),
    Sentinels(RedisSentinels),
    Cluster(RedisCluster),
}

impl Topologies {
    async fn start() -> Self {
        let servers: Arc<[_]> =
            join_all((0..INDEPENDENT).map(|_| RedisServer::start())).await.into();
        let (sentinels, cluster) =
            tokio::join!(RedisSentinels::start(DOWN_AFTER), RedisCluster::start(DOWN_AFTER));
        let of = |count, url: fn(&[RedisServer]) -> String| Topology {
            url: url(&servers[..count]),
            servers: Servers::Independent(servers.clone(), count),
        };
        let others = vec![
            (SENTINEL, Topology { url: sentinels.url(), servers: Servers::Sentinels(sentinels) }),
            (CLUSTER, Topology { url: cluster.url(), servers: Servers::Cluster(cluster) }),
            (QUORUM_OF_THREE, of(3, quorum)),
            (QUORUM_OF_FIVE, of(5, quorum)),
            (RSLOCK_ON_THREE, of(3, urls)),
        ];
        Self { one: of(1, urls), others }
    }
}

/// Returns the URLs as a list: `redis://…,redis://…`.
fn urls(servers: &[RedisServer]) -> String {
    servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(",")
}

/// Returns the URL of a quorum. Each quorum has its own database: a server that voted in another quorum would
/// count as restarted.
fn quorum(servers: &[RedisServer]) -> String {
    let addresses = servers.iter().map(|server| server.addr().to_string());
    let database = servers.len();
    format!("redis-quorum://{}/{database}", addresses.collect::<Vec<_>>().join(","))
}

#[async_trait]
impl Store for Topologies {
    fn url(&self) -> String {
        self.one.url()
    }

    fn part(&self, contender: Contender) -> Option<&dyn Store> {
        let other = self.others.iter().find(|(name, _)| *name == contender.name);
        Some(other.map_or(&self.one, |(_, topology)| topology))
    }
}

impl Topology {
    /// Returns the servers that take requests while none fails.
    fn servers(&self) -> &[RedisServer] {
        match &self.servers {
            Servers::Independent(servers, count) => &servers[..*count],
            Servers::Sentinels(sentinels) => &sentinels.servers()[..1],
            Servers::Cluster(cluster) => &cluster.servers()[..PRIMARIES],
        }
    }
}

#[async_trait]
impl Store for Topology {
    fn url(&self) -> String {
        self.url.clone()
    }

    async fn requests(&self) -> Result<Option<u64>> {
        Ok(Some(self.servers().iter().map(requests).sum()))
    }

    fn cpu(&self) -> Result<Option<Duration>> {
        let used = self.servers().iter().map(|server| cpu::of(server.pid()));
        used.sum::<Result<Duration>>().map(Some)
    }
}
