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

/// Asserts that docs/connections.md has the row of a client's connections at rest and while it waits, by a network
/// before the server at `upstream`.
#[cfg(any(feature = "etcd", feature = "postgres", feature = "redis", feature = "zookeeper"))]
async fn assert_counted(store: &str, upstream: std::net::SocketAddr, url: &str) {
    use lock_testkit::{Proxy, eventually};

    let limit = std::time::Duration::from_secs(60);
    let page = read("docs/connections.md");
    let row = page.lines().find(|line| line.starts_with(&format!("| {store} |"))).expect(store);
    let mut told = row.split('|').skip(2).map(|cell| cell.trim().parse::<usize>().expect(row));
    let (at_rest, waiting) = (told.next().expect(row), told.next().expect(row));
    let proxy = Proxy::start(upstream).await;
    let through = url.replace(&upstream.to_string(), &proxy.addr().to_string());
    let (client, other) = (connect(&through).await.expect(store), connect(url).await.expect(store));
    let (_held, busy) = (client.acquire("a").await.expect(store), other.acquire("b").await);
    let count = async |count| {
        let is_so = async || proxy.open_connections() == count;
        eventually(&format!("{count} connections"), limit, is_so).await;
    };
    count(at_rest).await;
    let wait = tokio::spawn({
        let client = client.clone();
        async move { client.acquire("b").await.map(drop) }
    });
    let waits = async || {
        let state = other.admin().inspect("b").await;
        state.is_ok_and(|state| state.waiters == Some(1))
    };
    eventually("it waits", limit, waits).await;
    count(waiting).await;
    drop(busy.expect(store));
    wait.await.expect("no panic").expect(store);
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connections_of_redis_are_counted() {
    let server = lock_testkit::RedisServer::start().await;
    assert_counted("Redis", server.addr(), &server.url()).await;
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connections_of_etcd_are_counted() {
    let server = lock_testkit::EtcdServer::start().await;
    assert_counted("etcd", server.addr(), &server.url()).await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connections_of_postgres_are_counted() {
    let server = lock_testkit::PostgresServer::start().await;
    assert_counted("Postgres", server.addr(), &server.url()).await;
}

#[cfg(feature = "zookeeper")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connections_of_zookeeper_are_counted() {
    let server = lock_testkit::ZooKeeperServer::start().await;
    assert_counted("ZooKeeper", server.addr(), &server.url()).await;
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
