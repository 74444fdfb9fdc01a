//! A Redis server as the tests of every server see it.

use std::net::SocketAddr;
use std::sync::Arc;

use leasehold::DistributedLock;
use leasehold::redis::RedisBackend;
use lock_testkit::faults::Harness;
use lock_testkit::{RedisServer, Reply, eventually};
use tokio::sync::OnceCell;

use crate::support::LIMIT;

/// A write is in the hands of the operating system before it is answered, so that it outlives the server's
/// process. With another policy a write may wait for a slow disk, and be lost.
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "no"];

/// A server that keeps what it answered.
pub(crate) struct RedisFaults;

impl Harness for RedisFaults {
    type Server = RedisServer;

    /// One for requests, and one for pushes.
    const CONNECTIONS: usize = 2;

    async fn start() -> RedisServer {
        RedisServer::start_with(&DURABLE).await
    }

    async fn shared() -> &'static RedisServer {
        static SHARED: OnceCell<RedisServer> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await
    }

    async fn connect_at(address: SocketAddr) -> Arc<dyn DistributedLock> {
        let url = format!("redis://{address}/");
        Arc::new(RedisBackend::connect(&url).await.expect("a connection"))
    }

    async fn pushes(server: &RedisServer) -> usize {
        connections(server, "pubsub")
    }

    /// Counters stay, and marks of withdrawn claims, until they expire. A queue and its companion end with
    /// their last waiter.
    async fn until_nothing_is_left(server: &RedisServer) {
        for key in server.cli(&["KEYS", "*"]).array() {
            let key = key.text();
            assert!(server.cli(&["PTTL", key]).integer() > 0, "{key} never expires");
            let expected = key.ends_with(":fence") || key.contains(":withdrawn:");
            assert!(expected, "{key} is left behind");
        }
        eventually("the connections are closed", LIMIT, async || {
            connections(server, "normal") == 1 && connections(server, "pubsub") == 0
        })
        .await;
    }
}

/// How many connections of a kind there are. The connection that asks is a normal one.
fn connections(server: &RedisServer, kind: &str) -> usize {
    server.cli(&["CLIENT", "LIST", "TYPE", kind]).text().lines().count()
}

/// Whether nobody holds `name`, as a foreign client sees it.
pub(crate) fn is_free(server: &RedisServer, name: &str) -> bool {
    server.cli(&["EXISTS", name]) == Reply::Integer(0)
}
