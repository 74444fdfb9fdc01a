//! A put by one client, until the watch of another shows it.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use leasehold::etcd::etcd_client::{Client, WatchStream};

use super::put_and_delete::driver;
use crate::client::Result;
use crate::wake_up::WakeUp;

const KEY: &str = "floor";

pub(crate) struct PutToWatch {
    writer: Client,
    events: WatchStream,
}

impl PutToWatch {
    pub(crate) async fn at(url: &str) -> Result<Self> {
        let (writer, mut watcher) = (driver(url).await?, driver(url).await?);
        let mut events = watcher.watch(KEY, None).await?;
        // The first answer says that the watch has begun.
        events.message().await?;
        Ok(Self { writer, events })
    }
}

#[async_trait]
impl WakeUp for PutToWatch {
    async fn once(&mut self) -> Result<Duration> {
        let sent = Instant::now();
        let seen = async { self.events.message().await.map(|_| sent.elapsed()) };
        let (put, took) = tokio::join!(self.writer.put(KEY, "value", None), seen);
        put?;
        Ok(took?)
    }
}
