//! Cost of the protocol.

use std::time::Duration;

use futures_util::future::try_join_all;
use lock_testkit::EtcdServer;
use tokio::time::{Instant, sleep, timeout};

use crate::servers::{EtcdFaults, gauge, revision};
use crate::support::{LIMIT, client, patient, turn};

lock_testkit::test_resources!(EtcdFaults);

/// An acquisition and a release are one write each, without a lease of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_and_release_are_one_write_each() {
    let server = EtcdServer::start().await;
    let client = client(&server.url()).await;
    turn(&client, "first").await;
    let (before, granted) =
        (revision(&server), gauge(&server, "etcd_debugging_lease_granted_total").await);
    for _ in 0..100 {
        turn(&client, "again").await;
    }
    assert_eq!(revision(&server) - before, 200);
    let granted = gauge(&server, "etcd_debugging_lease_granted_total").await - granted;
    assert_eq!(granted, 0, "leases for 100 holds one after the other");
}

/// A caller that leaves a silent server also leaves the connection. The holds are then read again by the hundred,
/// over one stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c26_a_connection_that_is_left_costs_few_requests_however_many_holds_there_are() {
    const HOLDS: usize = 300;
    let server = EtcdServer::start().await;
    let client = client(&server.url()).await;
    let request = |lock: usize| client.acquire(patient(&lock.to_string()));
    let guards = try_join_all((0..HOLDS).map(request)).await.expect("free locks");
    let streams = || requests(&server, "started", "Watch");
    let reads = async || {
        requests(&server, "handled", "Range").await + requests(&server, "handled", "Txn").await
    };
    let watched = async || gauge(&server, "etcd_debugging_mvcc_watcher_total").await;
    let deadline = Instant::now() + LIMIT;
    while watched().await < HOLDS as u64 {
        assert!(Instant::now() < deadline, "each hold is watched");
        sleep(Duration::from_millis(20)).await;
    }
    let (opened, sent) = (streams().await, reads().await);
    while streams().await == opened {
        assert!(Instant::now() < deadline, "the connection is left");
        server.stop();
        let _ = timeout(Duration::from_millis(500), client.try_acquire("wanted")).await;
        server.cont();
    }
    while watched().await < HOLDS as u64 {
        assert!(Instant::now() < deadline, "each hold is watched again");
        sleep(Duration::from_millis(20)).await;
    }
    let sent = reads().await - sent;
    assert!(sent < HOLDS as u64 / 4, "{sent} requests for {HOLDS} holds");
    assert!(guards.iter().all(|guard| guard.is_held()));
}

/// Returns the number of requests of this method that the server has `started` or `handled`.
async fn requests(server: &EtcdServer, which: &str, method: &str) -> u64 {
    let metrics = server.metrics().await;
    let lines = metrics.lines().filter(|line| {
        line.starts_with(&format!("grpc_server_{which}_total{{"))
            && line.contains(&format!("grpc_method=\"{method}\""))
    });
    let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    counts.sum::<f64>() as u64
}
