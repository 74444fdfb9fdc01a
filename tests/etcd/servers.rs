//! Servers that tests share which disturb only their own names, and what an operator does to them.

use test_support::{EtcdCluster, EtcdServer};
use tokio::sync::OnceCell;

/// A server that nobody disturbs. It ends with the process, which is all that tethers it.
pub(crate) async fn one_member() -> &'static EtcdServer {
    static SERVER: OnceCell<EtcdServer> = OnceCell::const_new();
    SERVER.get_or_init(EtcdServer::start).await
}

/// A cluster that nobody disturbs.
pub(crate) async fn three_members() -> &'static EtcdCluster {
    static CLUSTER: OnceCell<EtcdCluster> = OnceCell::const_new();
    CLUSTER.get_or_init(|| EtcdServer::start_cluster(3)).await
}

/// The keys of the claims on `name`, the holder's first.
pub(crate) fn claims(server: &EtcdServer, name: &str) -> Vec<String> {
    let range = format!("leasehold/locks/{name}/");
    let command = ["get", "--prefix", &range, "--keys-only", "--sort-by=CREATE"];
    let keys = server.ctl(&command);
    keys.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Deletes the holder's key behind everyone's back.
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
