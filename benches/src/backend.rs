//! The measured backends, and the topologies of several Redis servers.

use clap::ValueEnum;

use crate::client::Result;
use crate::contender::Contender;
use crate::stores::{Store, etcd, file, memory, postgres, redis, topologies, zookeeper};

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, ValueEnum)]
pub(crate) enum Backend {
    Redis,
    Memory,
    File,
    Etcd,
    Postgres,
    /// Measured by the workloads of one lock alone.
    #[value(name = "zookeeper")]
    ZooKeeper,
    /// One Redis, Sentinel, a cluster and quorums beside each other, and rslock on three servers.
    Topologies,
}

impl Backend {
    /// Backends of one store, each compared with its floor and its peers.
    pub(crate) const STORES: [Self; 6] =
        [Self::Redis, Self::Memory, Self::File, Self::Etcd, Self::Postgres, Self::ZooKeeper];

    /// Starts a store for the bench; it ends with the value.
    pub(crate) async fn start(self) -> Result<Box<dyn Store>> {
        Ok(match self {
            Self::Redis => Box::new(redis::Redis::start().await),
            Self::Memory => Box::new(memory::Memory),
            Self::File => Box::new(file::Directory::start()?),
            Self::Etcd => Box::new(etcd::Etcd::start().await),
            Self::Postgres => Box::new(postgres::Postgres::start().await?),
            Self::ZooKeeper => Box::new(zookeeper::ZooKeeper::start().await),
            Self::Topologies => Box::new(topologies::Topologies::start().await),
        })
    }

    /// Returns the contenders, the project first.
    pub(crate) fn contenders(self) -> &'static [Contender] {
        match self {
            Self::Redis => redis::CONTENDERS,
            Self::Memory => memory::CONTENDERS,
            Self::File => file::CONTENDERS,
            Self::Etcd => etcd::CONTENDERS,
            Self::Postgres => postgres::CONTENDERS,
            Self::ZooKeeper => zookeeper::CONTENDERS,
            Self::Topologies => topologies::CONTENDERS,
        }
    }

    /// Returns the lowest possible cost of an acquire and a release: as many requests of the same size, without a
    /// lock.
    pub(crate) fn floor(self) -> Option<Contender> {
        match self {
            Self::Redis => Some(redis::FLOOR),
            Self::Memory | Self::File | Self::Topologies => None,
            Self::Etcd => Some(etcd::FLOOR),
            Self::Postgres => Some(postgres::FLOOR),
            Self::ZooKeeper => Some(zookeeper::FLOOR),
        }
    }

    /// Returns the floor, and the compared contenders.
    pub(crate) fn with_floor(self) -> impl Iterator<Item = Contender> {
        self.floor().into_iter().chain(self.contenders().iter().copied())
    }

    /// Label of the hand-off baseline.
    pub(crate) fn wake_up(self) -> &'static str {
        match self {
            Self::Redis => "PUBLISH",
            Self::Memory | Self::Topologies => "none",
            Self::File => "a unix datagram",
            Self::Etcd => "put to watch",
            Self::Postgres => "commit and NOTIFY",
            Self::ZooKeeper => "create to watch",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Memory => "memory",
            Self::File => "file",
            Self::Etcd => "etcd",
            Self::Postgres => "postgres",
            Self::ZooKeeper => "zookeeper",
            Self::Topologies => "topologies",
        }
    }
}
