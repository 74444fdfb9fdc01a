//! `leasehold doctor` reports dangers to locks on a live Redis, and passes a healthy server.

use std::time::Duration;

use lock_testkit::{RedisCluster, RedisServer, eventually};
use serde_json::Value;

use crate::LIMIT;
use crate::shell::{Output, Shell};

/// Returns the doctor's verdict on a check of a server.
async fn health(url: &str, check: &str) -> Value {
    let output = Shell::with_url(url).run(&["doctor", "--json"]).await;
    assert_eq!(output.code, 0, "a warning is no failure: {}", output.stderr);
    let report: Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(report["capabilities"]["backend"], "redis");
    let findings = report["findings"].as_array().expect("findings");
    let found = findings.iter().find(|finding| finding["check"] == check);
    let found = found.unwrap_or_else(|| panic!("no {check} in {report}"));
    assert_eq!(found["remedy"].is_null(), found["health"] == "good", "{found}");
    found["health"].clone()
}

async fn strictly(url: &str) -> Output {
    Shell::with_url(url).run(&["doctor", "--strict"]).await
}

const GOOD: [&str; 2] = ["--appendonly", "yes"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_good_server_passes() {
    let server = RedisServer::start_with(&GOOD).await;
    for check in ["eviction", "persistence", "role", "rights", "clock", "version"] {
        assert_eq!(health(&server.url(), check).await, "good", "{check}");
    }
    let output = strictly(&server.url()).await;
    assert_eq!(output.code, 0, "{}", output.stdout);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_server_that_evicts_is_named() {
    let args = [&GOOD[..], &["--maxmemory", "64mb", "--maxmemory-policy", "volatile-lru"]].concat();
    let server = RedisServer::start_with(&args).await;
    assert_eq!(health(&server.url(), "eviction").await, "risk");
    assert_eq!(health(&server.url(), "persistence").await, "good");
    let output = strictly(&server.url()).await;
    assert!(output.code == 1 && output.stdout.contains("volatile-lru"), "{}", output.stdout);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_server_without_persistence_is_named() {
    let server = RedisServer::start().await;
    assert_eq!(health(&server.url(), "persistence").await, "risk");
    assert_eq!(health(&server.url(), "eviction").await, "good");
    let output = strictly(&server.url()).await;
    assert!(output.code == 1 && output.stdout.contains("appendonly yes"), "{}", output.stdout);
}

/// C49: the doctor names a key that keeps everybody from a lock; so does `run`, at once or during its wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_what_has_the_name_of_a_lock_is_named() {
    let server = RedisServer::start_with(&GOOD).await;
    server.cli(&["RPUSH", "shop:list", "x"]);
    server.cli(&["SET", "shop:stuck", "x"]);
    let shell = Shell::with_url(&format!("{}?prefix=shop:", server.url()));
    for (name, says, exit, refusal) in [
        ("list", "a key of type list", 69, "choose another name"),
        (
            "stuck",
            "a key without a TTL that is not ours",
            75,
            "a key without a TTL that is not ours",
        ),
    ] {
        let output = shell.run(&["doctor", "--strict", name]).await;
        assert!(output.code == 1 && output.stdout.contains(says), "{}", output.stdout);
        let refused = shell.run(&["run", "--wait", "1s", name, "--", "true"]).await;
        assert!(refused.code == exit && refused.stderr.contains(refusal), "{}", refused.stderr);
    }
    let free = shell.run(&["doctor", "--strict", "free"]).await;
    assert!(free.code == 0 && free.stdout.contains("is free"), "{}", free.stdout);
    let waiting = shell.start(&["run", "-v", "stuck", "--", "true"]);
    eventually("the wait is warned of", LIMIT, async || {
        waiting.stderr().contains("waits for a key without a TTL")
    })
    .await;
}

/// C31: a dead server of a cluster is named, and hides no locks of the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_ps_lists_the_locks_beside_a_dead_server() {
    let mut cluster = RedisCluster::start(Duration::from_secs(60)).await;
    let (url, dead) = (cluster.url(), cluster.servers()[0].addr().to_string());
    // In slots of the second and the first third.
    let (shown, gone) = ("shop:b", "shop:a");
    assert_eq!([shown, gone].map(|name| cluster.primary_of(name)), [1, 0]);
    let shell = Shell::with_url(&format!("{url}?prefix=shop:"));
    let mut held = Vec::new();
    for name in ["b", "a"] {
        held.push(shell.hold(&[], name, "exec sleep 60").await);
    }
    cluster.server(0).kill();
    let listed = shell.run(&["ps", "--json"]).await;
    assert_eq!(listed.code, 69, "{}", listed.stderr);
    assert!(listed.stderr.contains(&dead), "{}", listed.stderr);
    let locks: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    let names: Vec<&Value> =
        locks["locks"].as_array().expect("a list").iter().map(|lock| &lock["name"]).collect();
    assert_eq!(names, ["b"]);
}
