//! Swaps backends by URL: one test body runs on each. This is the recipe of `docs/testing.md`.
//!
//! `LEASEHOLD_TEST_URL=redis://127.0.0.1/ cargo test --features redis --test swap chosen` runs it on another
//! store.

#![allow(clippy::expect_used, clippy::panic)]

use std::io::{Write, stderr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::core::OwnerId;
use leasehold::{Fence, LockClient, LockRequest, MemoryFence, Wait, connect};

/// Number of tasks that sell from one stock, each with its own client.
const SELLERS: u32 = 8;

/// The code under test, which does not depend on a backend.
async fn sell(locks: &LockClient, name: &str, fence: &impl Fence, stock: &AtomicU32) {
    let request = LockRequest::new(name).wait(Wait::AtMost(Duration::from_secs(30)));
    let guard = locks.acquire(request).await.expect("its turn comes");
    fence.advance(guard.token()).await.expect("tokens grow");
    let left = stock.load(Ordering::Relaxed);
    tokio::task::yield_now().await;
    stock.store(left - 1, Ordering::Relaxed);
    guard.release().await.expect("it was held to the end");
}

/// The test body.
async fn sellers_sell_each_item_once(url: &str) {
    let name = format!("swap-{}", OwnerId::random().expose());
    let (fence, stock) = (MemoryFence::new(), AtomicU32::new(SELLERS));
    let seller = async || {
        let locks = connect(url).await.expect("a client");
        sell(&locks, &name, &fence, &stock).await;
        locks.shutdown().await;
    };
    join_all((0..SELLERS).map(|_| seller())).await;
    assert_eq!(stock.into_inner(), 0, "{url}");
}

/// Tells which stores this build leaves out, past the runner, which hides the output of tests that pass.
#[test]
fn a_build_tells_which_stores_it_leaves_out() {
    let stores = [
        ("etcd", cfg!(feature = "etcd")),
        ("Postgres", cfg!(feature = "postgres")),
        ("Redis", cfg!(feature = "redis")),
        ("ZooKeeper", cfg!(feature = "zookeeper")),
    ];
    let left_out: Vec<_> = stores.iter().filter(|(_, has)| !has).map(|(name, _)| *name).collect();
    if !left_out.is_empty() {
        let list = left_out.join(", ");
        writeln!(stderr(), "\nleft out: tests on {list}; `cargo xtask test` runs all tests")
            .expect("an open standard error");
    }
}

/// In unit tests the URL is not set, and memory is used.
#[tokio::test]
async fn swapped_for_what_the_environment_has_chosen() {
    let url = std::env::var("LEASEHOLD_TEST_URL").unwrap_or_else(|_| "memory:swap".to_owned());
    sellers_sell_each_item_once(&url).await;
}

#[tokio::test]
async fn swapped_for_files() {
    let folder = tempfile::tempdir().expect("a folder");
    sellers_sell_each_item_once(&format!("file:{}", folder.path().display())).await;
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swapped_for_etcd() {
    let server = lock_testkit::EtcdServer::start().await;
    sellers_sell_each_item_once(&server.url()).await;
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swapped_for_redis() {
    let server = lock_testkit::RedisServer::start().await;
    sellers_sell_each_item_once(&server.url()).await;
}

/// C22, C24: a sale moves from store to store by its URL alone, and the fence of its resource goes on.
#[cfg(all(feature = "etcd", feature = "postgres", feature = "redis", feature = "zookeeper"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_one_fence_serves_each_store_in_turn() {
    use lock_testkit::{EtcdServer, PostgresServer, RedisServer, ZooKeeperServer};
    let zookeeper = ZooKeeperServer::start().await;
    let (redis, etcd) = (RedisServer::start().await, EtcdServer::start().await);
    let (postgres, folder) =
        (PostgresServer::start().await, tempfile::tempdir().expect("a folder"));
    let shop = leasehold::postgres::PostgresBackend::connect(&postgres.url()).await;
    let fence = shop.expect("a connection").fence("stock");
    let file = format!("file:{}", folder.path().display());
    let once = [zookeeper.url(), redis.url(), etcd.url(), postgres.url(), file];
    let again = [redis.url(), etcd.url(), zookeeper.url()];
    let urls: Vec<String> = once.into_iter().chain(again).collect();
    let stock = AtomicU32::new(2 * urls.len() as u32);
    for url in urls {
        let locks = connect(&url).await.expect("a client");
        tokio::join!(sell(&locks, "item", &fence, &stock), sell(&locks, "item", &fence, &stock));
        locks.shutdown().await;
    }
    assert_eq!(stock.into_inner(), 0);
}
