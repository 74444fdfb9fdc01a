//! The servers, and the project's backend on each.

use std::any::Any;
use std::sync::Arc;

use clap::ValueEnum;
use leasehold::etcd::EtcdBackend;
use leasehold::file::FileBackend;
use leasehold::postgres::PostgresBackend;
use leasehold::redis::RedisBackend;
use leasehold::zookeeper::ZooKeeperBackend;
use leasehold::{ClientOptions, DistributedLock, LockClient};
use lock_testkit::{EtcdServer, PostgresServer, RedisServer, ZooKeeperServer};

use crate::Result;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    Etcd,
    File,
    Postgres,
    Redis,
    #[value(name = "zookeeper")]
    ZooKeeper,
}

/// A running store; it ends with the value.
pub(crate) struct Server {
    pub(crate) store: Store,
    pub(crate) url: String,
    pub(crate) backend: Arc<dyn DistributedLock>,
    pub(crate) locks: LockClient,
    _running: Box<dyn Any + Send + Sync>,
}

impl Server {
    pub(crate) async fn start(store: Store) -> Result<Self> {
        let (url, running): (String, Box<dyn Any + Send + Sync>) = match store {
            Store::Etcd => {
                let server = EtcdServer::start_with(&["--quota-backend-bytes=8589934592"]).await;
                (server.url(), Box::new(server))
            }
            Store::File => {
                let folder = tempfile::tempdir()?;
                (folder.path().display().to_string(), Box::new(folder))
            }
            Store::Postgres => {
                let server = PostgresServer::start().await;
                (server.url(), Box::new(server))
            }
            Store::Redis => {
                let server = RedisServer::start().await;
                (server.url(), Box::new(server))
            }
            Store::ZooKeeper => {
                let server = ZooKeeperServer::start().await;
                (server.url(), Box::new(server))
            }
        };
        let backend: Arc<dyn DistributedLock> = match store {
            Store::Etcd => Arc::new(EtcdBackend::connect(&url).await?),
            Store::File => Arc::new(FileBackend::open(format!("{url}/locks"))?),
            Store::Postgres => Arc::new(PostgresBackend::connect(&url).await?),
            Store::Redis => Arc::new(RedisBackend::connect(&url).await?),
            Store::ZooKeeper => Arc::new(ZooKeeperBackend::connect(&url).await?),
        };
        let locks = LockClient::from_arc(Arc::clone(&backend), ClientOptions::default());
        Ok(Self { store, url, backend, locks, _running: running })
    }
}
