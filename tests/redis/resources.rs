//! Cost of the protocol.

use std::collections::HashMap;

use futures_util::future::join_all;
use leasehold::LockClient;
use lock_testkit::RedisServer;

use crate::server::RedisFaults;
use crate::support::{client, fresh_name, turn};

lock_testkit::test_resources!(RedisFaults);

/// Returns the number of calls of each command so far, including those in scripts.
pub(crate) fn calls(server: &RedisServer) -> HashMap<String, u64> {
    let stats = server.cli(&["INFO", "commandstats"]);
    let line = |line: &str| {
        let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let count = rest.split(',').next()?.parse().ok()?;
        Some((command.to_owned(), count))
    };
    stats.text().lines().filter_map(line).collect()
}

/// An acquisition takes two requests, even if each one changes hands between clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_off_costs_no_further_request() {
    let server = RedisServer::start().await;
    let name = fresh_name();
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(client(&server.url()).await);
    }
    let work = async |client: &LockClient, rounds: usize| {
        for _ in 0..rounds {
            turn(client, &name).await;
        }
    };
    // The first round opens the push connections.
    join_all(clients.iter().map(|client| work(client, 5))).await;
    let before = calls(&server)["evalsha"];
    join_all(clients.iter().map(|client| work(client, 100))).await;
    let requests = calls(&server)["evalsha"] - before;
    assert!(requests <= 2 * 400 + 40, "{requests} requests for 400 acquisitions");
}
