//! A create by one client, until the watch of another shows it.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use zookeeper_client::Client;

use super::create_and_delete::{driver, ephemeral};
use crate::client::Result;
use crate::wake_up::WakeUp;

const NODE: &str = "/floor";

pub(crate) struct CreateToWatch {
    writer: Client,
    watcher: Client,
}

impl CreateToWatch {
    pub(crate) async fn at(url: &str) -> Result<Self> {
        Ok(Self { writer: driver(url).await?, watcher: driver(url).await? })
    }
}

#[async_trait]
impl WakeUp for CreateToWatch {
    async fn once(&mut self) -> Result<Duration> {
        let (_, watch) = self.watcher.check_and_watch_stat(NODE).await?;
        let sent = Instant::now();
        let seen = async {
            watch.changed().await;
            sent.elapsed()
        };
        let options = ephemeral();
        let (created, took) = tokio::join!(self.writer.create(NODE, b"value", &options), seen);
        created?;
        self.writer.delete(NODE, None).await?;
        Ok(took)
    }
}
