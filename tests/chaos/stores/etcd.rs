//! etcd, with one member and with three.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{DistributedLock, LockError};
use lock_testkit::chaos::{Fault, Register, SERVER_FAULTS, Store, Victim, strike_server};
use lock_testkit::{EtcdCluster, EtcdServer};

/// The shortest TTL that etcd grants.
const SHORTEST_TTL: Duration = Duration::from_secs(2);

/// Delay after a holder's death: two seconds of the session, and one of the server; and a restart or a change of leader
/// gives all leases another TTL.
const SESSIONS_OUTLAST: Duration = Duration::from_secs(9);

/// A move of the leadership that an operator asks for.
const LEADER_MOVED: &str = "leader-moved";

/// A kill of whichever member leads.
const LEADER_KILLED: &str = "leader-killed";

/// An etcd server of one member.
pub(crate) struct Etcd(EtcdServer);

impl Store for Etcd {
    const NAME: &str = "etcd";
    const TTL: Duration = SHORTEST_TTL;
    const OUTLASTS: Duration = SESSIONS_OUTLAST;

    async fn start(_folder: &Path) -> Self {
        Self(EtcdServer::start().await)
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.0.addr())
    }

    fn url(&self, network: Option<SocketAddr>) -> String {
        format!("etcd://{}/", network.unwrap_or(self.0.addr()))
    }

    async fn records(&self) -> u64 {
        keys_and_leases(&self.0)
    }

    fn faults(&self) -> Vec<Fault> {
        SERVER_FAULTS.to_vec()
    }

    async fn strike(&mut self, fault: &str, span: Duration) {
        strike_server(&mut self.0, fault, span).await;
    }

    connects_by_url!();
}

fn keys_and_leases(server: &EtcdServer) -> u64 {
    let keys = server.ctl(&["get", "--prefix", "", "--keys-only"]);
    let leases = server.ctl(&["lease", "list"]);
    let lines = keys.lines().chain(leases.lines().skip(1));
    lines.filter(|line| !line.is_empty()).count() as u64
}

/// An etcd cluster of three members, one of which is disturbed at a time, in turn. The network is the one before the
/// first.
pub(crate) struct Members {
    cluster: EtcdCluster,
    struck: usize,
}

impl Store for Members {
    const NAME: &str = "etcd-of-three";
    const TTL: Duration = SHORTEST_TTL;
    const OUTLASTS: Duration = SESSIONS_OUTLAST;

    async fn start(_folder: &Path) -> Self {
        Self { cluster: EtcdServer::start_cluster(3).await, struck: 0 }
    }

    fn address(&self) -> Option<SocketAddr> {
        self.cluster.members().first().map(EtcdServer::addr)
    }

    fn url(&self, network: Option<SocketAddr>) -> String {
        match (self.address(), network) {
            (Some(first), Some(network)) => {
                self.cluster.url().replace(&first.to_string(), &network.to_string())
            }
            _ => self.cluster.url(),
        }
    }

    async fn records(&self) -> u64 {
        self.cluster.members().first().map_or(0, keys_and_leases)
    }

    /// Before 3.4.38, 3.5.23 and 3.6.5 a leader that was stopped may end leases that are renewed.
    fn faults(&self) -> Vec<Fault> {
        let [stopped, slow, killed] = SERVER_FAULTS;
        let of_leader = [LEADER_MOVED, LEADER_KILLED].map(|name| Fault::new(Victim::Server, name));
        [&[stopped.that_loses(), slow, killed], &of_leader[..]].concat()
    }

    async fn strike(&mut self, fault: &str, span: Duration) {
        if fault == LEADER_MOVED {
            self.cluster.move_leader().await;
            return;
        }
        if fault == LEADER_KILLED {
            let leader = self.cluster.leader().await;
            return strike_server(self.cluster.member(leader), "server-killed", span).await;
        }
        self.struck = (self.struck + 1) % self.cluster.members().len();
        strike_server(self.cluster.member(self.struck), fault, span).await;
    }

    connects_by_url!();
}
