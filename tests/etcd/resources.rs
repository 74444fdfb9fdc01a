//! Cost of the protocol.

use lock_testkit::EtcdServer;

use crate::servers::{EtcdFaults, gauge, revision};
use crate::support::{client, turn};

lock_testkit::test_resources!(EtcdFaults);

/// An acquisition and a release are one write each, and need no lease of their own.
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
