//! A Redis server as the tests of every server see it.

use std::net::SocketAddr;

use lock_testkit::{RedisServer, Reply, eventually};
use tokio::sync::OnceCell;

use crate::behaviours::{LIMIT, Server, as_launched};

/// A write is in the hands of the operating system before it is answered, so that it outlives the server's
/// process. With another policy a write may wait for a slow disk, and be lost.
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "no"];

impl Server for RedisServer {
    /// One for requests, and one for pushes.
    const CONNECTIONS: usize = 2;

    async fn start() -> Self {
        Self::start_with(&DURABLE).await
    }

    async fn shared() -> &'static Self {
        static SHARED: OnceCell<RedisServer> = OnceCell::const_new();
        SHARED.get_or_init(<Self as Server>::start).await
    }

    fn url_at(address: SocketAddr) -> String {
        format!("redis://{address}/")
    }

    as_launched!();

    async fn pushes(&self) -> usize {
        connections(self, "pubsub")
    }

    /// Counters stay, and marks of withdrawn claims, until they expire. A queue and its companion end with
    /// their last waiter.
    async fn until_nothing_is_left(&self) {
        for key in self.cli(&["KEYS", "*"]).array() {
            let key = key.text();
            assert!(self.cli(&["PTTL", key]).integer() > 0, "{key} never expires");
            let expected = key.ends_with(":fence") || key.contains(":withdrawn:");
            assert!(expected, "{key} is left behind");
        }
        eventually("the connections are closed", LIMIT, async || {
            connections(self, "normal") == 1 && connections(self, "pubsub") == 0
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
