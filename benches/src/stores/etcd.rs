//! An etcd server.

use std::time::Duration;

use async_trait::async_trait;
use lock_testkit::EtcdServer;

use super::Store;
use crate::client::Result;
use crate::contender::Contender;
use crate::cpu;
use crate::floors::{put_and_delete, put_to_watch};
use crate::ours::LEASEHOLD;
use crate::peers::lock_rpc;
use crate::wake_up::WakeUp;

pub(crate) const CONTENDERS: &[Contender] = &[LEASEHOLD, lock_rpc::LOCK_RPC];

pub(crate) const FLOOR: Contender = put_and_delete::PUT_AND_DELETE;

pub(crate) struct Etcd {
    server: EtcdServer,
    url: String,
}

impl Etcd {
    pub(crate) async fn start() -> Self {
        let server = EtcdServer::start().await;
        Self { url: server.url(), server }
    }
}

#[async_trait]
impl Store for Etcd {
    fn url(&self) -> &str {
        &self.url
    }

    async fn wake_up(&self) -> Result<Option<Box<dyn WakeUp>>> {
        let floor = Box::pin(put_to_watch::PutToWatch::at(&self.url)).await?;
        Ok(Some(Box::new(floor)))
    }

    /// Messages of streams count as requests.
    async fn requests(&self) -> Result<Option<u64>> {
        let metrics = self.server.metrics().await;
        let received =
            metrics.lines().filter(|line| line.starts_with("grpc_server_msg_received_total"));
        let counts = received.filter_map(|line| line.rsplit(' ').next()).map(str::parse::<f64>);
        Ok(Some(counts.sum::<std::result::Result<f64, _>>()? as u64))
    }

    fn cpu(&self) -> Result<Option<Duration>> {
        cpu::of(self.server.pid()).map(Some)
    }
}
