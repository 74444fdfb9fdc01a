//! State of clients on a Redis server.

use lock_testkit::{RedisServer, eventually};

use crate::support::LIMIT;

/// Waits until no client has left anything permanent. Counters and marks of withdrawn claims stay until they
/// expire. A queue and its companion end with their last waiter.
pub(crate) async fn redis_until_nothing_is_left(server: &RedisServer) {
    for key in server.cli(&["KEYS", "*"]).array() {
        let key = key.text();
        assert_ne!(server.cli(&["PTTL", key]).integer(), -1, "{key} never expires");
        let expected = key.ends_with(":fence") || key.contains(":withdrawn:");
        assert!(expected, "{key} is left behind");
    }
    eventually("the connections are closed", LIMIT, async || {
        redis_connections(server, "normal") == 1 && redis_connections(server, "pubsub") == 0
    })
    .await;
}

/// Counts the connections of a kind, except those of sentinels. The connection of this question is a normal one.
pub(crate) fn redis_connections(server: &RedisServer, kind: &str) -> usize {
    let clients = server.cli(&["CLIENT", "LIST", "TYPE", kind]);
    clients.text().lines().filter(|client| !client.contains(" name=sentinel-")).count()
}
