//! What the protocol costs, and what it leaves behind.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::LockClient;
use test_support::{RedisServer, eventually};

use crate::{LIMIT, client, fresh_name, patient};

/// How often each command was called so far, those inside scripts included.
fn calls(server: &RedisServer) -> HashMap<String, u64> {
    let stats = server.cli(&["INFO", "commandstats"]);
    let line = |line: &str| {
        let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let count = rest.split(',').next()?.parse().ok()?;
        Some((command.to_owned(), count))
    };
    stats.text().lines().filter_map(line).collect()
}

fn connections(server: &RedisServer, kind: &str) -> usize {
    server.cli(&["CLIENT", "LIST", "TYPE", kind]).text().lines().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_and_release_are_one_round_trip_each() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    let cycle = async |name: &str| {
        client.acquire(patient(name)).await.expect("free").release().await.expect("an answer");
    };
    cycle("first").await;
    let before = calls(&server);
    for _ in 0..100 {
        cycle("again").await;
    }
    let after = calls(&server);
    assert_eq!(after["evalsha"] - before["evalsha"], 200);
    for other in ["eval", "ping", "subscribe"] {
        assert_eq!(after.get(other), before.get(other), "{other}");
    }
}

/// Two requests an acquisition, also when each one changes hands between clients.
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
            let guard = client.acquire(patient(&name)).await.expect("its turn comes");
            guard.release().await.expect("an answer");
        }
    };
    // The first round opens the push connections.
    join_all(clients.iter().map(|client| work(client, 5))).await;
    let before = calls(&server)["evalsha"];
    join_all(clients.iter().map(|client| work(client, 100))).await;
    let requests = calls(&server)["evalsha"] - before;
    assert!(requests <= 2 * 400 + 40, "{requests} requests for 400 acquisitions");
}

/// C26: one connection for requests and one for pushes, however many locks a client waits for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c26_a_client_has_one_push_connection() {
    let server = RedisServer::start().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let names: Vec<String> = (0..50).map(|_| fresh_name()).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(holder.acquire(patient(name)).await.expect("a free lock"));
    }
    let waiting = names.iter().map(async |name| {
        waiter.acquire(patient(name)).await.expect("its turn comes").release().await
    });
    let release = async {
        for name in &names {
            eventually("it queues", LIMIT, async || {
                holder.inspect(name).await.expect("an answer").waiters == Some(1)
            })
            .await;
        }
        assert_eq!(connections(&server, "pubsub"), 1);
        // The client that asks is one as well.
        assert!(connections(&server, "normal") <= 3);
        for guard in guards {
            guard.release().await.expect("an answer");
        }
    };
    tokio::join!(join_all(waiting), release);
}

/// R1: after many cycles and clients, what is left are counters, which expire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_nothing_is_left_behind() {
    let server = RedisServer::start().await;
    for _ in 0..5 {
        let client = client(&server.url()).await;
        let cycles = (0..200).map(|i| {
            let (client, name) = (client.clone(), format!("leak-{}", i % 20));
            async move {
                let limit = Duration::from_millis(i % 7);
                let _ = tokio::time::timeout(limit, client.acquire(patient(&name))).await;
                drop(client.acquire(patient(&name)).await.expect("its turn comes"));
            }
        });
        join_all(cycles).await;
        client.shutdown().await;
    }
    for key in server.cli(&["KEYS", "*"]).array() {
        let (key, left) = (key.text(), server.cli(&["PTTL", key.text()]).integer());
        assert!(left > 0, "{key} never expires");
        let ours = key.ends_with(":fence") || key.contains(":withdrawn:");
        // An empty queue and its companion end with their last waiter.
        assert!(ours, "{key} is left behind");
    }
    eventually("the connections are closed", LIMIT, async || {
        connections(&server, "normal") == 1 && connections(&server, "pubsub") == 0
    })
    .await;
}
