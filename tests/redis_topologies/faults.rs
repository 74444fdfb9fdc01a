//! Servers that are dead or stopped, and networks that lose requests, under clients of a cluster and of
//! sentinels: the faults of one server.
//!
//! The faults are those of one server and of the network before it. So the cluster has one server, which has all
//! slots, and the primary has no replica. [`failover`](crate::failover) tests servers that another one can
//! replace.

use std::net::SocketAddr;
use std::sync::Arc;

use leasehold::DistributedLock;
use lock_testkit::faults::{Harness, Server};
use lock_testkit::servers::free_port;
use lock_testkit::{Proxy, RedisSentinel, RedisServer, eventually};
use tokio::sync::OnceCell;

use crate::redis_server::{redis_connections, redis_until_nothing_is_left};
use crate::support::LIMIT;

mod cluster {
    lock_testkit::test_faults!(super::ClusterFaults);
    lock_testkit::test_resources!(super::ClusterFaults);
}

mod sentinel {
    lock_testkit::test_faults!(super::SentinelFaults);
    // The other resources are those of one server.
    lock_testkit::test_faults!(super::SentinelFaults:
        c26_a_client_has_few_connections_however_much_it_waits_for);
}

/// A cluster of one server.
struct Alone(RedisServer);

impl Alone {
    async fn start() -> Self {
        let bus = free_port().to_string();
        // The server tells clients its port, and to use the host at which they asked: that of a proxy, if there
        // is one.
        let cluster = [
            "--cluster-enabled",
            "yes",
            "--cluster-port",
            &bus,
            "--cluster-preferred-endpoint-type",
            "unknown-endpoint",
        ];
        let server = RedisServer::start_with(&[&RedisServer::DURABLE[..], &cluster].concat()).await;
        server.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
        let alone = Self(server);
        alone.until_it_serves().await;
        alone
    }

    /// Waits, since a primary serves no slot in the first two seconds.
    async fn until_it_serves(&self) {
        eventually("the cluster serves all slots", LIMIT, async || {
            self.0.cli(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok")
        })
        .await;
    }
}

impl Server for Alone {
    fn addr(&self) -> SocketAddr {
        self.0.addr()
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn cont(&self) {
        self.0.cont();
    }

    fn kill(&mut self) {
        self.0.kill();
    }

    async fn restart(&mut self) {
        self.0.restart().await;
        self.until_it_serves().await;
    }
}

struct ClusterFaults;

impl Harness for ClusterFaults {
    type Server = Alone;

    /// One for requests, one for pushes, and one for the list of slots.
    const CONNECTIONS: usize = 3;

    async fn start() -> Alone {
        Alone::start().await
    }

    async fn shared() -> &'static Alone {
        static SHARED: OnceCell<Alone> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await
    }

    async fn connect_at(address: SocketAddr) -> Arc<dyn DistributedLock> {
        crate::support::connected(&format!("redis-cluster://{address}")).await
    }

    async fn proxy(server: &Alone) -> Proxy {
        Proxy::start_beside(server.addr()).await
    }

    async fn pushes(server: &Alone) -> usize {
        redis_connections(&server.0, "pubsub")
    }

    async fn until_nothing_is_left(server: &Alone) {
        redis_until_nothing_is_left(&server.0).await;
    }
}

/// Returns the sentinel of all tests here. It watches any address of a client, even that of a proxy.
async fn sentinel() -> &'static RedisSentinel {
    static SHARED: OnceCell<RedisSentinel> = OnceCell::const_new();
    SHARED.get_or_init(RedisSentinel::start).await
}

struct SentinelFaults;

impl Harness for SentinelFaults {
    type Server = RedisServer;

    /// One for requests, one for pushes, and two to the sentinel.
    const CONNECTIONS: usize = 4;

    async fn start() -> RedisServer {
        RedisServer::start_with(&RedisServer::DURABLE).await
    }

    async fn shared() -> &'static RedisServer {
        static SHARED: OnceCell<RedisServer> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await
    }

    async fn connect_at(address: SocketAddr) -> Arc<dyn DistributedLock> {
        crate::support::connected(&sentinel().await.watch(address)).await
    }

    async fn pushes(server: &RedisServer) -> usize {
        redis_connections(server, "pubsub")
    }

    async fn until_nothing_is_left(server: &RedisServer) {
        redis_until_nothing_is_left(server).await;
    }
}
