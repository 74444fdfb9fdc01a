//! The measured backends, and the topologies of several Redis servers.

use clap::ValueEnum;

use crate::contender::Contender;
use crate::stores::{Row, Starting, etcd, file, memory, postgres, redis, topologies, zookeeper};

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

    fn row(self) -> &'static Row {
        match self {
            Self::Redis => &redis::ROW,
            Self::Memory => &memory::ROW,
            Self::File => &file::ROW,
            Self::Etcd => &etcd::ROW,
            Self::Postgres => &postgres::ROW,
            Self::ZooKeeper => &zookeeper::ROW,
            Self::Topologies => &topologies::ROW,
        }
    }

    /// Starts a store for the bench; it ends with the value.
    pub(crate) fn start(self) -> Starting {
        (self.row().start)()
    }

    pub(crate) fn contenders(self) -> &'static [Contender] {
        self.row().contenders
    }

    pub(crate) fn floor(self) -> Option<Contender> {
        self.row().floor
    }

    /// Returns the floor, and the compared contenders.
    pub(crate) fn with_floor(self) -> impl Iterator<Item = Contender> {
        self.floor().into_iter().chain(self.contenders().iter().copied())
    }

    pub(crate) fn wake_up(self) -> &'static str {
        self.row().wake_up
    }

    pub(crate) fn name(self) -> &'static str {
        self.row().name
    }
}
