//! The member to which a client is connected, and the change to another.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::etcd::EtcdBackend;
use lock_testkit::faults::Harness;
use lock_testkit::{EtcdCluster, EtcdServer, eventually};

use crate::renewals::started;
use crate::servers::EtcdFaults;
use crate::support::{LIMIT, client, fresh_name, held, renewed};

/// Returns the number of the member that has the stream of watches of the only client with a hold.
pub(crate) async fn member_in_use(cluster: &EtcdCluster) -> usize {
    let mut in_use = None;
    eventually("the hold is watched", LIMIT, async || {
        let streams = join_all(cluster.members().iter().map(EtcdFaults::pushes)).await;
        in_use = streams.iter().position(|streams| *streams > 0);
        in_use.is_some()
    })
    .await;
    in_use.expect("just seen")
}

/// All clients have one URL, and would otherwise all use one member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_spread_over_the_members() {
    let cluster = EtcdServer::start_cluster(3).await;
    for _ in 0..30 {
        EtcdBackend::connect(&cluster.url()).await.expect("a connection");
    }
    for member in cluster.members() {
        // One run in 100,000 leaves out a member by chance.
        assert!(started(member, "etcdserverpb.KV", "Range").await > 0, "{}", member.addr());
    }
}

/// A client returns to its member after an outage: otherwise all clients would use the last running one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_comes_back_to_its_member() {
    let mut cluster = EtcdServer::start_cluster(3).await;
    let client = client(&cluster.url()).await;
    let guard = held(&client, &fresh_name()).await;
    let home = member_in_use(&cluster).await;
    cluster.member(home).kill();
    let ttl = Duration::from_secs(60);
    eventually("extended at another", LIMIT, async || guard.extend(ttl).await.is_ok()).await;
    cluster.member(home).restart().await;
    // The client looks every 10 s.
    let member = &cluster.members()[home];
    eventually("it is back", 3 * LIMIT, async || EtcdFaults::pushes(member).await > 0).await;
    renewed(&guard).await;
}
