//! ZooKeeper, with one member and with three.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{DistributedLock, LockError};
use lock_testkit::chaos::{
    Fault, Register, SERVER_FAULTS, Store, Victim, clock_faults, strike_clock, strike_server,
};
use lock_testkit::{ZooKeeperEnsemble, ZooKeeperServer};

/// Delay after a holder's death. A session lasts a third longer than its TTL, and a restart or a change of leader
/// starts it anew.
const SESSIONS_OUTLAST: Duration = Duration::from_secs(9);

/// A kill of whichever member leads.
const LEADER_KILLED: &str = "leader-killed";

/// A ZooKeeper server of one member. A step of its wall clock ends no hold.
pub(crate) struct ZooKeeper(ZooKeeperServer);

impl Store for ZooKeeper {
    const NAME: &str = "zookeeper";
    const OUTLASTS: Duration = SESSIONS_OUTLAST;

    async fn start(_folder: &Path) -> Self {
        Self(ZooKeeperServer::start_with_clock().await)
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.0.addr())
    }

    fn url(&self, network: Option<SocketAddr>) -> String {
        format!("zookeeper://{}/", network.unwrap_or(self.0.addr()))
    }

    async fn records(&self) -> u64 {
        nodes(&self.0).await
    }

    fn faults(&self) -> Vec<Fault> {
        let steps = clock_faults(self.0.clock());
        let steps = steps.into_iter().map(|step| Fault { loses: false, ..step });
        SERVER_FAULTS.into_iter().chain(steps).collect()
    }

    async fn strike(&mut self, fault: &str, span: Duration) {
        match fault {
            "clock-back" | "clock-forward" => strike_clock(self.0.clock(), fault, span).await,
            _ => strike_server(&mut self.0, fault, span).await,
        }
    }

    connects_by_url!();
}

/// Returns the number of nodes.
async fn nodes(server: &ZooKeeperServer) -> u64 {
    let figures = server.ask("mntr").await.expect("an answer");
    let nodes = figures.lines().find_map(|line| line.strip_prefix("zk_znode_count"));
    nodes.and_then(|count| count.trim().parse().ok()).expect("a number of nodes")
}

/// A ZooKeeper ensemble of three members, one of which is disturbed at a time, in turn. The network is the one
/// before the first.
pub(crate) struct Members {
    members: ZooKeeperEnsemble,
    struck: usize,
}

impl Store for Members {
    const NAME: &str = "zookeeper-of-three";
    const OUTLASTS: Duration = SESSIONS_OUTLAST;

    async fn start(_folder: &Path) -> Self {
        Self { members: ZooKeeperServer::start_ensemble(3).await, struck: 0 }
    }

    fn address(&self) -> Option<SocketAddr> {
        self.members.members().first().map(ZooKeeperServer::addr)
    }

    fn url(&self, network: Option<SocketAddr>) -> String {
        match (self.address(), network) {
            (Some(first), Some(network)) => {
                self.members.url().replace(&first.to_string(), &network.to_string())
            }
            _ => self.members.url(),
        }
    }

    async fn records(&self) -> u64 {
        match self.members.members().first() {
            Some(first) => nodes(first).await,
            None => 0,
        }
    }

    fn faults(&self) -> Vec<Fault> {
        [&SERVER_FAULTS[..], &[Fault::new(Victim::Server, LEADER_KILLED)]].concat()
    }

    async fn strike(&mut self, fault: &str, span: Duration) {
        if fault == LEADER_KILLED {
            let leader = self.members.leader().await;
            return strike_server(self.members.member(leader), "server-killed", span).await;
        }
        self.struck = (self.struck + 1) % self.members.members().len();
        strike_server(self.members.member(self.struck), fault, span).await;
    }

    connects_by_url!();
}
