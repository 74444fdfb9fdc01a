//! Compares the documentation with the code.

#![allow(clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

use leasehold::core::{Order, Renewals, TokenDurability, Wakeup};
use leasehold::{Capabilities, LockClient, connect};

fn read(path: impl AsRef<Path>) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Asserts that the table of guarantees has the row of these locks.
fn assert_told(locks: &LockClient) {
    let row = row(&locks.capabilities());
    let told = read("docs/guarantees.md");
    assert!(told.lines().any(|line| line == row), "docs/guarantees.md lacks this row:\n{row}");
}

fn row(capabilities: &Capabilities) -> String {
    let Capabilities { backend, on_store_loss, ttl_granularity, .. } = capabilities;
    let order = match capabilities.order {
        Order::Fifo => "first come, first served",
        _ => "in any order",
    };
    let woken = match capabilities.wakeup {
        Wakeup::Push => "by push".to_owned(),
        Wakeup::Poll(longest) => format!("by polling, every {longest:?} at the most"),
        _ => panic!("the table has no words for {:?}", capabilities.wakeup),
    };
    let renewals = match capabilities.renewals {
        Renewals::Batched => "a hundred in one request",
        _ => "each a request of its own",
    };
    let tokens = match capabilities.tokens {
        TokenDurability::CounterAndClock => "a counter, and the clock if the counter is lost",
        _ => "the store's own counter",
    };
    format!(
        "| {backend} | {order} | {woken} | {renewals} | {tokens} | {ttl_granularity:?} | {on_store_loss} |"
    )
}

#[tokio::test]
async fn c30_the_guarantees_tell_the_capabilities_of_the_embedded_backends() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = format!("file:{}", folder.path().display());
    for url in ["memory:", &file] {
        assert_told(&connect(url).await.expect("a client"));
    }
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_the_guarantees_tell_the_capabilities_of_etcd() {
    let server = lock_testkit::EtcdServer::start().await;
    assert_told(&connect(&server.url()).await.expect("a client"));
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_the_guarantees_tell_the_capabilities_of_postgres() {
    let server = lock_testkit::PostgresServer::start().await;
    assert_told(&connect(&server.url()).await.expect("a client"));
}

#[cfg(feature = "zookeeper")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_the_guarantees_tell_the_capabilities_of_zookeeper() {
    let server = lock_testkit::ZooKeeperServer::start().await;
    assert_told(&connect(&server.url()).await.expect("a client"));
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_the_guarantees_tell_the_capabilities_of_redis() {
    let server = lock_testkit::RedisServer::start().await;
    assert_told(&connect(&server.url()).await.expect("a client"));
}

#[cfg(feature = "redis-quorum")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_the_guarantees_tell_the_capabilities_of_a_redis_quorum() {
    let servers = [(); 3].map(|()| lock_testkit::RedisServer::start());
    let servers = futures_util::future::join_all(servers).await;
    let addresses: Vec<String> = servers.iter().map(|server| server.addr().to_string()).collect();
    let url = format!("redis-quorum://{}", addresses.join(","));
    assert_told(&connect(&url).await.expect("a client"));
}
