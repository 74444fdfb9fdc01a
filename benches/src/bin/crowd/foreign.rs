//! A client of the server that knows nothing of locks.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use leasehold::etcd::etcd_client;
use sqlx::{Connection, Executor, PgConnection};
use tokio::sync::oneshot;
use tokio::time::sleep;
use zookeeper_client::{Acls, CreateMode};

use crate::Result;
use crate::server::{Server, Store};

/// Pause between two requests of the foreign client.
const PAUSE: Duration = Duration::from_millis(1);

/// The foreign client asks for at least this long, also beside a verb that is over sooner.
const AT_LEAST: Duration = Duration::from_millis(500);

/// Duration of a verb, and the worst delay of the foreign client beside it.
pub(crate) struct Watched {
    pub(crate) took: Duration,
    pub(crate) worst: Duration,
    /// The verb's error.
    pub(crate) refused: Option<String>,
}

#[async_trait]
trait Foreign: Send {
    /// Writes a small value of its own.
    async fn write(&mut self) -> Result<()>;
}

impl Server {
    /// Runs a verb beside the foreign client.
    pub(crate) async fn watch(&self, verb: impl Future<Output = Result<()>>) -> Result<Watched> {
        let (mut foreign, (ended, end)) = (self.foreign().await?, oneshot::channel());
        let asking = tokio::spawn(async move { worst_until(end, &mut *foreign).await });
        let start = Instant::now();
        let refused = verb.await.err().map(|error| error.to_string());
        let took = start.elapsed();
        sleep(AT_LEAST.saturating_sub(took)).await;
        // The foreign client has failed if it does not listen; its error follows.
        let _ = ended.send(());
        Ok(Watched { took, worst: asking.await??, refused })
    }

    async fn foreign(&self) -> Result<Box<dyn Foreign>> {
        let address = self.url.split_once("://").map_or("", |(_, rest)| rest.trim_end_matches('/'));
        Ok(match self.store {
            Store::Etcd => Box::new(etcd_client::Client::connect([address], None).await?),
            Store::File => Box::new(OtherFile(format!("{}/other", self.url))),
            Store::Postgres => Box::new(Table::make(&self.url).await?),
            Store::Redis => {
                let client = redis::Client::open(&*self.url)?;
                Box::new(client.get_multiplexed_async_connection().await?)
            }
            Store::ZooKeeper => Box::new(Node::make(address).await?),
        })
    }
}

/// Returns the longest time that a request took until `end`.
async fn worst_until(
    mut end: oneshot::Receiver<()>,
    foreign: &mut dyn Foreign,
) -> Result<Duration> {
    let mut worst = Duration::ZERO;
    while end.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
        let asked = Instant::now();
        foreign.write().await?;
        worst = worst.max(asked.elapsed());
        sleep(PAUSE).await;
    }
    Ok(worst)
}

#[async_trait]
impl Foreign for etcd_client::Client {
    async fn write(&mut self) -> Result<()> {
        self.put("foreign", "value", None).await?;
        Ok(())
    }
}

#[async_trait]
impl Foreign for redis::aio::MultiplexedConnection {
    async fn write(&mut self) -> Result<()> {
        Ok(redis::cmd("SET").arg("foreign").arg("value").exec_async(self).await?)
    }
}

struct OtherFile(String);

#[async_trait]
impl Foreign for OtherFile {
    async fn write(&mut self) -> Result<()> {
        Ok(tokio::fs::write(&self.0, b"value").await?)
    }
}

struct Table(PgConnection);

impl Table {
    async fn make(url: &str) -> Result<Self> {
        let mut connection = PgConnection::connect(url).await?;
        connection.execute("CREATE TABLE IF NOT EXISTS foreign_rows (n bigint)").await?;
        connection.execute("INSERT INTO foreign_rows VALUES (1)").await?;
        Ok(Self(connection))
    }
}

#[async_trait]
impl Foreign for Table {
    async fn write(&mut self) -> Result<()> {
        self.0.execute("INSERT INTO foreign_rows VALUES (1)").await?;
        Ok(())
    }
}

struct Node(zookeeper_client::Client);

impl Node {
    async fn make(address: &str) -> Result<Self> {
        let client = zookeeper_client::Client::connect(address).await?;
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        match client.create("/foreign", b"value", &options).await {
            Ok(_) | Err(zookeeper_client::Error::NodeExists) => Ok(Self(client)),
            Err(error) => Err(error.into()),
        }
    }
}

#[async_trait]
impl Foreign for Node {
    async fn write(&mut self) -> Result<()> {
        self.0.set_data("/foreign", b"value", None).await?;
        Ok(())
    }
}
