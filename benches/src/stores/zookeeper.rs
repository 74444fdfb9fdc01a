//! A ZooKeeper server.

use std::time::Duration;

use async_trait::async_trait;
use lock_testkit::ZooKeeperServer;

use super::Store;
use crate::client::Result;
use crate::contender::Contender;
use crate::cpu;
use crate::floors::{create_and_delete, create_to_watch};
use crate::ours::LEASEHOLD;
use crate::peers::driver_lock;
use crate::wake_up::WakeUp;

pub(crate) const CONTENDERS: &[Contender] = &[LEASEHOLD, driver_lock::DRIVER_LOCK];

pub(crate) const FLOOR: Contender = create_and_delete::CREATE_AND_DELETE;

pub(crate) struct ZooKeeper {
    server: ZooKeeperServer,
    url: String,
}

impl ZooKeeper {
    pub(crate) async fn start() -> Self {
        let server = ZooKeeperServer::start().await;
        Self { url: server.url(), server }
    }
}

#[async_trait]
impl Store for ZooKeeper {
    fn url(&self) -> &str {
        &self.url
    }

    async fn wake_up(&self) -> Result<Option<Box<dyn WakeUp>>> {
        Ok(Some(Box::new(create_to_watch::CreateToWatch::at(&self.url).await?)))
    }

    /// Pings of connections count as requests.
    async fn requests(&self) -> Result<Option<u64>> {
        let said = self.server.ask("mntr").await?;
        let received = said.lines().find_map(|line| line.strip_prefix("zk_packets_received\t"));
        Ok(received.map(str::parse).transpose()?)
    }

    fn cpu(&self) -> Result<Option<Duration>> {
        cpu::of(self.server.pid()).map(Some)
    }
}
