//! Servers that tests share if they disturb only their own names, and the acts of an operator on them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leasehold::DistributedLock;
use leasehold::etcd::etcd_client::{Client, LeaseTimeToLiveOptions};
use lock_testkit::faults::Harness;
use lock_testkit::{EtcdCluster, EtcdServer, eventually};
use tokio::sync::OnceCell;

use crate::support::{LIMIT, connected};

/// The shortest TTL of etcd with the default settings of its members.
pub(crate) const SHORTEST_TTL: Duration = Duration::from_secs(2);

/// Returns a server that no test disturbs. It ends with the process, its only tether.
pub(crate) async fn one_member() -> &'static EtcdServer {
    static SERVER: OnceCell<EtcdServer> = OnceCell::const_new();
    SERVER.get_or_init(EtcdServer::start).await
}

/// Returns a cluster that no test disturbs.
pub(crate) async fn three_members() -> &'static EtcdCluster {
    static CLUSTER: OnceCell<EtcdCluster> = OnceCell::const_new();
    CLUSTER.get_or_init(|| EtcdServer::start_cluster(3)).await
}

/// Returns the keys of the claims on `name`, the holder's first.
pub(crate) fn claims(server: &EtcdServer, name: &str) -> Vec<String> {
    let range = format!("leasehold/locks/{name}/");
    let command = ["get", "--prefix", &range, "--keys-only", "--sort-by=CREATE"];
    let keys = server.ctl(&command);
    keys.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Deletes the holder's key without its client.
pub(crate) fn delete_holder(server: &EtcdServer, name: &str) {
    if let Some(key) = claims(server, name).first() {
        server.ctl(&["del", key]);
    }
}

/// The revision of the store: one more for each commit that wrote something.
pub(crate) fn revision(server: &EtcdServer) -> u64 {
    let fields = server.ctl(&["get", "nothing", "-w", "fields"]);
    let revision = fields.lines().find_map(|line| line.strip_prefix("\"Revision\" : "));
    revision.expect("a revision").trim().parse().expect("a number")
}

/// Returns the URL of a server, or of a network before it, at `address`.
pub(crate) fn url_at(address: SocketAddr) -> String {
    format!("etcd://{address}/")
}

/// A server of one member.
pub(crate) struct EtcdFaults;

impl Harness for EtcdFaults {
    type Server = EtcdServer;

    /// Requests and the stream of watches share it.
    const CONNECTIONS: usize = 1;

    /// Each acquisition takes a commit. On a busy machine, hundreds at once all time out, and are repeated
    /// without end.
    const AT_ONCE: usize = 50;

    async fn start() -> EtcdServer {
        EtcdServer::start().await
    }

    async fn shared() -> &'static EtcdServer {
        one_member().await
    }

    async fn connect_at(address: SocketAddr) -> Arc<dyn DistributedLock> {
        connected(&url_at(address)).await
    }

    async fn pushes(server: &EtcdServer) -> usize {
        gauge(server, "etcd_debugging_mvcc_watch_stream_total").await as usize
    }

    async fn until_nothing_is_left(server: &EtcdServer) {
        eventually("no claim is left", LIMIT, async || {
            server.ctl(&["get", "--prefix", "leasehold/locks/", "--keys-only"]).trim().is_empty()
        })
        .await;
        eventually("only marks are left", 2 * LIMIT, async || only_marks_are_left(server).await)
            .await;
        eventually("no watch is left", LIMIT, async || {
            gauge(server, "etcd_debugging_mvcc_watcher_total").await == 0
        })
        .await;
    }
}

/// The ids of all leases.
pub(crate) fn leases(server: &EtcdServer) -> Vec<String> {
    let list = server.ctl(&["lease", "list"]);
    list.lines().skip(1).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Returns true if each lease is that of a mark of a withdrawn claim, which stays for 40 s.
pub(crate) async fn only_marks_are_left(server: &EtcdServer) -> bool {
    let mut operator = raw(server).await;
    let left = operator.leases().await.expect("an answer");
    for lease in left.leases() {
        let keys = Some(LeaseTimeToLiveOptions::new().with_keys());
        let lease = operator.lease_time_to_live(lease.id(), keys).await.expect("an answer");
        let is_mark = |key: &Vec<u8>| key.starts_with(b"leasehold/withdrawn/");
        if lease.keys().is_empty() || !lease.keys().iter().all(is_mark) {
            return false;
        }
    }
    true
}

/// Returns etcd's own client, as an operator uses it.
pub(crate) async fn raw(server: &EtcdServer) -> Client {
    Client::connect([server.addr().to_string()], None).await.expect("a client")
}

/// A number of the server's metrics.
pub(crate) async fn gauge(server: &EtcdServer, name: &str) -> u64 {
    let metrics = server.metrics().await;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}")).parse::<f64>().expect("a number") as u64
}
