//! The stores, and the faults of each.

/// Common part of all stores.
macro_rules! connects_by_url {
    () => {
        async fn connect(url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
            crate::stores::Any::connect(url).await
        }

        async fn register(
            url: &str,
            folder: &Path,
            name: &str,
        ) -> Result<Arc<dyn Register>, LockError> {
            crate::stores::Any::register(url, folder, name).await
        }
    };
}

#[cfg(feature = "etcd")]
pub(crate) mod etcd;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold::{DistributedLock, LockError};
use lock_testkit::chaos::{FileRegister, Register, Store};

use crate::registers;

/// A store, for its workers: they only know a URL.
pub(crate) struct Any;

impl Store for Any {
    const NAME: &str = "any";

    async fn start(_folder: &Path) -> Self {
        Self
    }

    fn url(&self, _network: Option<SocketAddr>) -> String {
        unreachable!("workers are told a URL")
    }

    async fn connect(url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
        leasehold::backend(url).await
    }

    async fn register(
        url: &str,
        folder: &Path,
        name: &str,
    ) -> Result<Arc<dyn Register>, LockError> {
        registers::open(url, folder, name).await
    }
}

/// The memory of this process. Only evictions and dropped futures disturb it.
pub(crate) struct Memory(String);

impl Store for Memory {
    const NAME: &str = "memory";
    const IN_PROCESSES: bool = false;

    async fn start(folder: &Path) -> Self {
        Self(format!("memory:{}", folder.file_name().expect("it has a name").display()))
    }

    fn url(&self, _network: Option<SocketAddr>) -> String {
        self.0.clone()
    }

    connects_by_url!();
}

/// A folder that the workers share. Workers are paused and killed.
pub(crate) struct Files(PathBuf);

impl Store for Files {
    const NAME: &str = "file";

    async fn start(folder: &Path) -> Self {
        Self(folder.join("locks"))
    }

    fn url(&self, _network: Option<SocketAddr>) -> String {
        format!("file:{}", self.0.display())
    }

    async fn records(&self) -> u64 {
        files_in(&self.0)
    }

    connects_by_url!();
}

fn files_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| 1 + files_in(&entry.path())).sum()
}

/// Files whose register has no fence.
pub(crate) struct Unfenced(Files);

impl Store for Unfenced {
    const NAME: &str = "file without a fence";

    async fn start(folder: &Path) -> Self {
        Self(Files::start(folder).await)
    }

    fn url(&self, network: Option<SocketAddr>) -> String {
        format!("{}?prefix=unfenced:", self.0.url(network))
    }

    async fn connect(url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
        Any::connect(url).await
    }

    async fn register(_: &str, folder: &Path, name: &str) -> Result<Arc<dyn Register>, LockError> {
        Ok(Arc::new(FileRegister::unfenced(folder, name)))
    }
}
