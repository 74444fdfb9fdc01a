//! What the protocol costs, and what it leaves behind.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::etcd::EtcdLock;
use leasehold::{ClientOptions, LockClient, LockRequest, Wait};
use test_support::{EtcdServer, eventually};

use crate::servers::{claims, one_member, revision};
use crate::{LIMIT, MINUTE, client, fresh_name, patient};

fn leases(server: &EtcdServer) -> usize {
    server.ctl(&["lease", "list"]).lines().skip(1).filter(|line| !line.is_empty()).count()
}

/// A counter of the server's metrics.
async fn gauge(server: &EtcdServer, name: &str) -> u64 {
    let metrics = server.metrics().await;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}")).parse::<f64>().expect("a number") as u64
}

async fn nothing_is_left(server: &EtcdServer) {
    eventually("no key is left", LIMIT, async || {
        server.ctl(&["get", "--prefix", "leasehold/", "--keys-only"]).trim().is_empty()
    })
    .await;
    eventually("no lease is left", LIMIT, async || leases(server) == 0).await;
    eventually("no watch is left", LIMIT, async || {
        gauge(server, "etcd_debugging_mvcc_watcher_total").await == 0
    })
    .await;
}

/// Once a lease is in stock, an acquisition and a release are one write each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_and_release_are_one_write_each() {
    let server = EtcdServer::start().await;
    let client = client(&server.url()).await;
    let cycle = async |name: &str| {
        client.acquire(patient(name)).await.expect("free").release().await.expect("an answer");
    };
    cycle("first").await;
    let (before, granted) =
        (revision(&server), gauge(&server, "etcd_debugging_lease_granted_total").await);
    for _ in 0..100 {
        cycle("again").await;
    }
    assert_eq!(revision(&server) - before, 200);
    let granted = gauge(&server, "etcd_debugging_lease_granted_total").await - granted;
    assert!(granted <= 2, "{granted} leases for 100 holds one after the other");
}

/// R1: acquisitions that are dropped at any point leave no key, no lease and no watch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_nothing_is_left_behind() {
    let server = EtcdServer::start().await;
    for _ in 0..3 {
        let client = client(&server.url()).await;
        let cycles = (0..100).map(|i| {
            let (client, name) = (client.clone(), format!("leak-{}", i % 20));
            async move {
                let limit = Duration::from_micros((i * 737) % 15_000);
                let _ = tokio::time::timeout(limit, client.acquire(patient(&name))).await;
                if i % 3 == 0 {
                    drop(client.acquire(patient(&name)).await.expect("its turn comes"));
                }
            }
        });
        join_all(cycles).await;
        client.shutdown().await;
    }
    nothing_is_left(&server).await;
}

/// R1: neither do waits that end, tries at a busy lock, and holds that moved to a longer lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_waits_tries_and_extensions_leave_nothing_behind() {
    let server = EtcdServer::start().await;
    let (holder, other) = (client(&server.url()).await, client(&server.url()).await);
    let guard = holder.acquire(patient("a")).await.expect("a free lock");
    for _ in 0..10 {
        assert!(other.try_acquire(patient("a")).await.expect("an answer").is_none());
        assert_eq!(claims(&server, "a").len(), 1, "a try left something");
    }
    let short = patient("a").wait(Wait::AtMost(Duration::from_millis(50)));
    for late in join_all((0..5).map(|_| other.acquire(short.clone()))).await {
        assert!(late.is_err());
    }
    for factor in 1..5 {
        guard.extend(MINUTE * factor).await.expect("held");
    }
    guard.release().await.expect("an answer");
    holder.shutdown().await;
    other.shutdown().await;
    nothing_is_left(&server).await;
}

/// C26: one stream of watches, and one connection, however many locks a client waits for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c26_a_client_has_one_stream() {
    let server = EtcdServer::start().await;
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
            eventually("it queues", LIMIT, async || claims(&server, name).len() == 2).await;
        }
        let streams = gauge(&server, "etcd_debugging_mvcc_watch_stream_total").await;
        assert!(streams <= 2, "{streams} streams of two clients");
        for guard in guards {
            guard.release().await.expect("an answer");
        }
    };
    tokio::join!(join_all(waiting), release);
}

/// A listing reads many locks, page by page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_of_many_locks_is_whole_and_sorted() {
    let server = one_member().await;
    let (client, tag) = (client(&server.url()).await, fresh_name());
    let name = |i: usize| format!("{tag}/{i:04}");
    let mut guards = Vec::new();
    for some in 0..30 {
        let names = (some * 50..some * 50 + 50).map(name);
        let acquiring = names.map(|name| client.acquire(LockRequest::new(name).ttl(MINUTE)));
        guards.extend(join_all(acquiring).await.into_iter().map(|guard| guard.expect("free")));
    }
    // A busy machine may take a while for so many.
    let mut options = ClientOptions::default();
    options.request_timeout = LIMIT;
    let observer = EtcdLock::connect(&server.url()).await.expect("a connection");
    let observer = LockClient::with_options(observer, options);
    let listed = observer.list(&tag, 1200).await.expect("a listing");
    let names: Vec<String> = listed.iter().map(|state| state.name.to_string()).collect();
    assert_eq!(names, (0..1200).map(name).collect::<Vec<_>>());
    drop(guards);
    client.shutdown().await;
}
