//! Several Redis servers for the tests.

use std::sync::Arc;

use futures_util::future::join_all;
use leasehold::{DistributedLock, LockClient};
use lock_testkit::{RedisServer, Reply, eventually};
use tokio::sync::OnceCell;

use crate::support::{LIMIT, client_of, connected};

/// The servers of one quorum.
pub(crate) struct Set {
    pub(crate) servers: Vec<RedisServer>,
}

impl Set {
    pub(crate) async fn of(count: usize) -> Self {
        let set = Self { servers: join_all((0..count).map(|_| RedisServer::start())).await };
        // A new set needs all its servers once.
        set.backend().await;
        set
    }

    /// Returns three servers that nobody disturbs.
    pub(crate) async fn three() -> &'static Self {
        static SHARED: OnceCell<Set> = OnceCell::const_new();
        SHARED.get_or_init(|| Self::of(3)).await
    }

    /// Returns five servers that nobody disturbs.
    pub(crate) async fn five() -> &'static Self {
        static SHARED: OnceCell<Set> = OnceCell::const_new();
        SHARED.get_or_init(|| Self::of(5)).await
    }

    /// Runs one command at each server.
    pub(crate) fn cli(&self, command: &[&str]) -> Vec<Reply> {
        self.servers.iter().map(|server| server.cli(command)).collect()
    }

    /// Returns the number of servers that may fail.
    pub(crate) fn minority(&self) -> usize {
        self.servers.len() / 2
    }

    /// Waits until the server `number` votes, after a restart.
    pub(crate) async fn until_it_votes(&self, number: usize) {
        let server = &self.servers[number];
        eventually("it votes", LIMIT, async || {
            server.cli(&["EXISTS", "{}:run", "{}:out"]).integer() == 1
        })
        .await;
    }

    pub(crate) fn url(&self) -> String {
        let addresses: Vec<String> =
            self.servers.iter().map(|server| server.addr().to_string()).collect();
        format!("redis-quorum://{}", addresses.join(","))
    }

    pub(crate) async fn backend(&self) -> Arc<dyn DistributedLock> {
        connected(&self.url()).await
    }

    pub(crate) async fn client(&self) -> LockClient {
        client_of(self.backend().await)
    }

    /// Returns for each server true if it has the key of a lock.
    pub(crate) fn held(&self, name: &str) -> Vec<bool> {
        let held = |server: &RedisServer| server.cli(&["EXISTS", name]) == Reply::Integer(1);
        self.servers.iter().map(held).collect()
    }
}
