//! A Redis server for the tests of every server.

use std::net::SocketAddr;
use std::sync::Arc;

use leasehold::DistributedLock;
use lock_testkit::faults::Harness;
use lock_testkit::{RedisServer, Reply};
use tokio::sync::OnceCell;

use crate::redis_server::{redis_connections, redis_until_nothing_is_left};
use crate::support::connected;

/// A server that never loses its answers.
pub(crate) struct RedisFaults;

impl Harness for RedisFaults {
    type Server = RedisServer;

    /// One for requests, and one for pushes.
    const CONNECTIONS: usize = 2;

    async fn start() -> RedisServer {
        RedisServer::start_with(&RedisServer::DURABLE).await
    }

    async fn shared() -> &'static RedisServer {
        static SHARED: OnceCell<RedisServer> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await
    }

    async fn connect_at(address: SocketAddr) -> Arc<dyn DistributedLock> {
        connected(&format!("redis://{address}/")).await
    }

    async fn pushes(server: &RedisServer) -> usize {
        redis_connections(server, "pubsub")
    }

    async fn until_nothing_is_left(server: &RedisServer) {
        redis_until_nothing_is_left(server).await;
    }
}

/// Returns true if nobody holds `name`, for a foreign client.
pub(crate) fn is_free(server: &RedisServer, name: &str) -> bool {
    server.cli(&["EXISTS", name]) == Reply::Integer(0)
}
