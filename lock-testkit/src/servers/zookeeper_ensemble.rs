//! A ZooKeeper ensemble.

use std::time::Duration;

use futures_util::future::try_join_all;

use super::zookeeper_server::ZooKeeperServer;
use super::{free_port, on_free_ports};
use crate::eventually;

/// Limit for a very busy machine; an election takes one to two seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// The members give up a leader that stood still for 3 s: many ticks, for a very busy machine.
const SETTINGS: &str = "syncLimit=30\nquorumListenOnAllIPs=false\n";

/// An ensemble of real ZooKeeper servers. A test can disturb each of them separately.
#[derive(Debug)]
pub struct ZooKeeperEnsemble {
    members: Vec<ZooKeeperServer>,
}

impl ZooKeeperServer {
    /// Starts an ensemble of `count` members, usually three, and returns once each answers.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_ensemble(count: usize) -> ZooKeeperEnsemble {
        on_free_ports(|| async {
            let peers = (1..=count)
                .map(|id| format!("server.{id}=127.0.0.1:{}:{}\n", free_port(), free_port()));
            let settings = SETTINGS.to_owned() + &peers.collect::<String>();
            let launch = |id| Self::launch(free_port(), id, &settings);
            let members: Vec<_> = (1..=count).map(launch).collect();
            try_join_all(members.iter().map(Self::until_it_answers)).await?;
            Ok(ZooKeeperEnsemble { members })
        })
        .await
    }

    async fn leads(&self) -> bool {
        self.ask("srvr").await.is_ok_and(|said| said.contains("Mode: leader"))
    }
}

impl ZooKeeperEnsemble {
    /// The URL for clients: `zookeeper://127.0.0.1:…,127.0.0.1:…,127.0.0.1:…/`.
    pub fn url(&self) -> String {
        let addresses: Vec<_> =
            self.members.iter().map(|member| member.addr().to_string()).collect();
        format!("zookeeper://{}/", addresses.join(","))
    }

    /// Returns the members.
    pub fn members(&self) -> &[ZooKeeperServer] {
        &self.members
    }

    /// Returns one member, for a test to disturb.
    ///
    /// # Panics
    /// If no member has that number.
    pub fn member(&mut self, number: usize) -> &mut ZooKeeperServer {
        &mut self.members[number]
    }

    /// Waits for a leader, and returns its number. No member may be stopped.
    ///
    /// # Panics
    /// If there is no leader for a minute.
    pub async fn leader(&self) -> usize {
        let mut leader = None;
        eventually("a member leads", LIMIT, async || {
            for (number, member) in self.members.iter().enumerate() {
                if member.leads().await {
                    leader = Some(number);
                }
            }
            leader.is_some()
        })
        .await;
        leader.expect("just seen")
    }
}
