//! A cluster of etcd servers.

use std::time::Duration;

use super::etcd_server::{EtcdServer, Member};
use super::on_free_ports;
use crate::eventually;

/// Limit for a very busy machine; an election takes one to two seconds.
const LIMIT: Duration = Duration::from_secs(20);

/// A cluster of real `etcd` servers. A test can disturb each of them separately.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<EtcdServer>,
}

impl EtcdServer {
    /// Starts a cluster of `count` members, usually three, and returns once each takes writes.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_cluster(count: usize) -> EtcdCluster {
        let start = || Self::start_all(Member::group(count, &[]));
        EtcdCluster { members: on_free_ports(start).await }
    }

    /// Returns the member's id, and the id of the leader that it knows; 0 if it knows none.
    fn ids(&self) -> Option<(u64, u64)> {
        let status = self.try_ctl(&["endpoint", "status", "-w", "fields"]).ok()?;
        let field = |name: &str| {
            let value =
                |line: &str| Some(line.strip_prefix(name)?.trim_matches([' ', ':']).parse());
            status.lines().find_map(value)?.ok()
        };
        Some((field("\"MemberID\"")?, field("\"Leader\"")?))
    }
}

impl EtcdCluster {
    /// Returns the URL for clients: `etcd://127.0.0.1:…,127.0.0.1:…,127.0.0.1:…/`.
    pub fn url(&self) -> String {
        let address = |member: &EtcdServer| member.addr().to_string();
        let addresses: Vec<String> = self.members.iter().map(address).collect();
        format!("etcd://{}/", addresses.join(","))
    }

    /// Returns the members.
    pub fn members(&self) -> &[EtcdServer] {
        &self.members
    }

    /// Returns one member, for a test to disturb.
    ///
    /// # Panics
    /// If no member has that number.
    pub fn member(&mut self, number: usize) -> &mut EtcdServer {
        &mut self.members[number]
    }

    /// Waits for a leader, and returns its number. All running members must answer.
    ///
    /// # Panics
    /// If there is no leader for twenty seconds.
    pub async fn leader(&self) -> usize {
        let mut leads = None;
        eventually("a member leads", LIMIT, async || {
            let ids = self.members.iter().map(|member| member.ids());
            leads = ids.into_iter().position(|ids| ids.is_some_and(|(own, leader)| own == leader));
            leads.is_some()
        })
        .await;
        leads.expect("just seen")
    }

    /// Hands the leadership to another member, and returns the number of the new leader.
    ///
    /// Tries again on a busy machine, where the leadership can also move by itself.
    ///
    /// # Panics
    /// If there is no leader, or it does not give the leadership away.
    pub async fn move_leader(&self) -> usize {
        let mut leads = 0;
        eventually("the leadership moves", LIMIT, async || {
            let from = self.leader().await;
            if let Some((to, _)) = self.members[(from + 1) % self.members.len()].ids() {
                // A refusal shows in the leader, which stays.
                let _ = self.members[from].try_ctl(&["move-leader", &format!("{to:x}")]);
            }
            leads = self.leader().await;
            leads != from
        })
        .await;
        leads
    }
}
