//! An etcd server, beside its own Lock call. The floors are a put and a delete, and a put until a watch shows it.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use leasehold::etcd::etcd_client::{self, LockOptions, WatchStream};
use lock_testkit::EtcdServer;

use super::{Row, Store, WakeUp};
use crate::client::{Client, Result};
use crate::contender::Contender;
use crate::cpu;
use crate::ours::LEASEHOLD;

pub(crate) const ROW: Row = Row {
    name: "etcd",
    start: || {
        Box::pin(async { Ok(Box::new(EtcdServer::start_with(ARGS).await) as Box<dyn Store>) })
    },
    contenders: &[LEASEHOLD, Contender::of::<LockRpc>("Lock RPC")],
    floor: Some(Contender::of::<PutAndDelete>("put and delete")),
    wake_up: "put to watch",
};

/// Room for a million names.
const ARGS: &[&str] = &["--quota-backend-bytes=8589934592"];

/// TTL of the Lock call's leases in seconds. They are not renewed: a bench is shorter.
const AN_HOUR: i64 = 60 * 60;

const KEY: &str = "floor";

#[async_trait]
impl Store for EtcdServer {
    fn url(&self) -> String {
        self.url()
    }

    async fn wake_up(&self) -> Result<Option<Box<dyn WakeUp>>> {
        Ok(Some(Box::new(Box::pin(PutToWatch::at(&self.url())).await?)))
    }

    /// Messages of streams count as requests.
    async fn requests(&self) -> Result<Option<u64>> {
        let metrics = self.metrics().await;
        let received =
            metrics.lines().filter(|line| line.starts_with("grpc_server_msg_received_total"));
        let counts = received.filter_map(|line| line.rsplit(' ').next()).map(str::parse::<f64>);
        Ok(Some(counts.sum::<std::result::Result<f64, _>>()? as u64))
    }

    fn cpu(&self) -> Result<Option<Duration>> {
        cpu::of(self.pid()).map(Some)
    }
}

/// Connects the driver alone.
async fn driver(url: &str) -> Result<etcd_client::Client> {
    let member = url.trim_start_matches("etcd://").trim_end_matches('/');
    Ok(etcd_client::Client::connect([member], None).await?)
}

struct PutAndDelete(etcd_client::Client);

#[async_trait]
impl Client for PutAndDelete {
    async fn connect(url: &str) -> Result<Self> {
        driver(url).await.map(Self)
    }

    async fn acquire(&mut self, name: &str) -> Result<()> {
        self.0.put(name, "value", None).await?;
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Result<()> {
        self.0.delete(name, None).await?;
        Ok(())
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self(self.0.clone()))
    }
}

struct PutToWatch {
    writer: etcd_client::Client,
    events: WatchStream,
}

impl PutToWatch {
    async fn at(url: &str) -> Result<Self> {
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

/// etcd's own Lock call.
struct LockRpc {
    client: etcd_client::Client,
    /// Each task has its own: the holders of one lease do not exclude each other.
    lease: Option<i64>,
    key: Vec<u8>,
}

impl LockRpc {
    fn by(client: etcd_client::Client) -> Self {
        Self { client, lease: None, key: Vec::new() }
    }

    async fn lease(&mut self) -> Result<i64> {
        if self.lease.is_none() {
            self.lease = Some(self.client.lease_grant(AN_HOUR, None).await?.id());
        }
        Ok(self.lease.ok_or("it was just granted")?)
    }
}

#[async_trait]
impl Client for LockRpc {
    async fn connect(url: &str) -> Result<Self> {
        let mut client = Self::by(driver(url).await?);
        client.lease().await?;
        Ok(client)
    }

    async fn acquire(&mut self, name: &str) -> Result<()> {
        let options = LockOptions::new().with_lease(self.lease().await?);
        self.key = self.client.lock(name, Some(options)).await?.key().to_vec();
        Ok(())
    }

    async fn release(&mut self, _: &str) -> Result<()> {
        self.client.unlock(self.key.clone()).await?;
        Ok(())
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self::by(self.client.clone()))
    }
}
