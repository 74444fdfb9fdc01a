//! etcd: beside its own Lock call.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use leasehold::etcd::etcd_client::{self, LockOptions, WatchOptions};
use lock_testkit::EtcdServer;
use tokio::time::sleep;

use crate::client::{Client, Leasehold, Peer, Result};
use crate::system::System;
use crate::times::{Times, micros};

const PEERS: &[Peer] = &[
    Peer { name: "leasehold", client: |url| Box::pin(async move { Leasehold::at(&url).await }) },
    Peer {
        name: "etcd's Lock call",
        client: |url| Box::pin(async move { LockCall::at(&url).await }),
    },
];

pub(crate) struct Etcd {
    url: String,
    _server: Option<EtcdServer>,
}

impl Etcd {
    pub(crate) async fn at(url: Option<&str>) -> Self {
        match url {
            Some(url) => Self { url: url.to_owned(), _server: None },
            None => {
                let server = EtcdServer::start().await;
                Self { url: server.url(), _server: Some(server) }
            }
        }
    }
}

#[async_trait]
impl System for Etcd {
    fn url(&self) -> &str {
        &self.url
    }

    fn peers(&self) -> &'static [Peer] {
        PEERS
    }

    fn two_writes(&self) -> Peer {
        Peer {
            name: "put and delete",
            client: |url| Box::pin(async move { PutAndDelete::at(&url).await }),
        }
    }

    fn wake_up(&self) -> &'static str {
        "put to watch"
    }

    async fn wake_ups(&self) -> Result<Times> {
        let (mut writer, mut watcher) = (driver(&self.url).await?, driver(&self.url).await?);
        let mut events = watcher.watch("floor", Some(WatchOptions::new())).await?;
        events.message().await?;
        let mut times = Times::new(3)?;
        for _ in 0..500 {
            let sent = Instant::now();
            let (put, seen) = tokio::join!(writer.put("floor", "value", None), async {
                events.message().await.map(|_| micros(sent))
            });
            put?;
            times.record(seen?)?;
            sleep(Duration::from_millis(1)).await;
        }
        Ok(times)
    }
}

/// The driver by itself, to the first member of the URL.
async fn driver(url: &str) -> Result<etcd_client::Client> {
    let members = url.trim_start_matches("etcd://").trim_end_matches('/').split(',');
    let members: Vec<&str> = members.take(1).collect();
    Ok(etcd_client::Client::connect(members, None).await?)
}

/// Its lease is granted once, and never renewed: a bench is shorter.
struct LockCall {
    client: etcd_client::Client,
    lease: i64,
    key: Vec<u8>,
}

impl LockCall {
    async fn at(url: &str) -> Result<Box<dyn Client>> {
        const AN_HOUR: i64 = 60 * 60;
        let mut client = driver(url).await?;
        let lease = client.lease_grant(AN_HOUR, None).await?.id();
        Ok(Box::new(Self { client, lease, key: Vec::new() }))
    }
}

#[async_trait]
impl Client for LockCall {
    async fn acquire(&mut self, name: &str) -> Result<()> {
        let options = LockOptions::new().with_lease(self.lease);
        self.key = self.client.lock(name, Some(options)).await?.key().to_vec();
        Ok(())
    }

    async fn release(&mut self, _: &str) -> Result<()> {
        self.client.unlock(self.key.clone()).await?;
        Ok(())
    }
}

struct PutAndDelete(etcd_client::Client);

impl PutAndDelete {
    async fn at(url: &str) -> Result<Box<dyn Client>> {
        Ok(Box::new(Self(driver(url).await?)))
    }
}

#[async_trait]
impl Client for PutAndDelete {
    async fn acquire(&mut self, name: &str) -> Result<()> {
        self.0.put(name, "value", None).await?;
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Result<()> {
        self.0.delete(name, None).await?;
        Ok(())
    }
}
