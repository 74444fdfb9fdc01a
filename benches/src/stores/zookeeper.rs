//! A ZooKeeper server, beside the driver's own lock. The floors are a create and a delete of a node, and a create until
//! the watch of another client shows it.

use std::mem;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lock_testkit::ZooKeeperServer;
use zookeeper_client::{Acls, CreateMode, CreateOptions, LockOptions, LockPrefix};

use super::{Row, Store, WakeUp};
use crate::client::{Client, Result};
use crate::contender::Contender;
use crate::cpu;
use crate::ours::LEASEHOLD;

pub(crate) const ROW: Row = Row {
    name: "zookeeper",
    start: || Box::pin(async { Ok(Box::new(ZooKeeperServer::start().await) as Box<dyn Store>) }),
    contenders: &[LEASEHOLD, Contender::of::<DriverLock>("Curator's recipe")],
    floor: Some(Contender::of::<CreateAndDelete>("create and delete")),
    wake_up: "create to watch",
};

const NODE: &str = "/floor";

#[async_trait]
impl Store for ZooKeeperServer {
    fn url(&self) -> String {
        self.url()
    }

    async fn wake_up(&self) -> Result<Option<Box<dyn WakeUp>>> {
        let (writer, watcher) = (driver(&self.url()).await?, driver(&self.url()).await?);
        Ok(Some(Box::new(CreateToWatch { writer, watcher })))
    }

    /// Pings of connections count as requests.
    async fn requests(&self) -> Result<Option<u64>> {
        let said = self.ask("mntr").await?;
        let received = said.lines().find_map(|line| line.strip_prefix("zk_packets_received\t"));
        Ok(received.map(str::parse).transpose()?)
    }

    fn cpu(&self) -> Result<Option<Duration>> {
        cpu::of(self.pid()).map(Some)
    }
}

/// Connects the driver alone.
async fn driver(url: &str) -> Result<zookeeper_client::Client> {
    let member = url.trim_start_matches("zookeeper://").trim_end_matches('/');
    Ok(zookeeper_client::Client::connect(member).await?)
}

/// Returns the options of a node that ends with its client.
fn ephemeral() -> CreateOptions<'static> {
    CreateMode::Ephemeral.with_acls(Acls::anyone_all())
}

struct CreateAndDelete(zookeeper_client::Client);

#[async_trait]
impl Client for CreateAndDelete {
    async fn connect(url: &str) -> Result<Self> {
        driver(url).await.map(Self)
    }

    async fn acquire(&mut self, name: &str) -> Result<()> {
        self.0.create(&format!("/{name}"), b"value", &ephemeral()).await?;
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Result<()> {
        self.0.delete(&format!("/{name}"), None).await?;
        Ok(())
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self(self.0.clone()))
    }
}

struct CreateToWatch {
    writer: zookeeper_client::Client,
    watcher: zookeeper_client::Client,
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

/// The ZooKeeper driver's own lock: Curator's recipe, without a token.
struct DriverLock {
    client: zookeeper_client::Client,
    /// Path of the node that holds the lock.
    claim: String,
}

#[async_trait]
impl Client for DriverLock {
    async fn connect(url: &str) -> Result<Self> {
        Ok(Self { client: driver(url).await?, claim: String::new() })
    }

    async fn acquire(&mut self, name: &str) -> Result<()> {
        let folder = format!("/{name}");
        let parents = CreateMode::Container.with_acls(Acls::anyone_all());
        let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(parents)?;
        let prefix = LockPrefix::new_curator(&folder, "lock-")?;
        let lock = self.client.lock(prefix, b"", options).await?;
        self.claim = lock.lock_path().to_owned();
        // The drop of the lock would delete the node in a task that nobody awaits.
        mem::forget(lock);
        Ok(())
    }

    async fn release(&mut self, _: &str) -> Result<()> {
        self.client.delete(&self.claim, None).await?;
        Ok(())
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self { client: self.client.clone(), claim: String::new() })
    }
}
