//! Stores of the bench: its own servers, a directory, this process.

pub(crate) mod etcd;
pub(crate) mod file;
pub(crate) mod memory;
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod topologies;
pub(crate) mod zookeeper;

use std::any::Any;
use std::time::Duration;

use async_trait::async_trait;

use crate::client::Result;
use crate::contender::Contender;
use crate::wake_up::WakeUp;

#[async_trait]
pub(crate) trait Store: Sync {
    /// URL by which the project, and most peers, connect.
    fn url(&self) -> &str;

    /// Returns the store of one contender, if each has its own.
    fn part(&self, _: Contender) -> Option<&dyn Store> {
        None
    }

    /// Returns the floor of a hand-off.
    async fn wake_up(&self) -> Result<Option<Box<dyn WakeUp>>> {
        Ok(None)
    }

    /// Returns the number of requests that the store has taken so far, if it counts them.
    async fn requests(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Returns the CPU time so far of the servers that take requests, if known.
    fn cpu(&self) -> Result<Option<Duration>> {
        Ok(None)
    }

    /// Returns the number of connections that the server serves, if it reports them.
    async fn sessions(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Returns the number of lines in the server's log, if it writes one.
    fn log_lines(&self) -> Option<usize> {
        None
    }

    /// Adds `names` names of locks without holders, if the store can do that at once.
    async fn fill(&self, _names: usize) -> Result<()> {
        Ok(())
    }

    /// Returns a reader that keeps a snapshot open for as long as the value lives, if the store has snapshots.
    async fn snapshot(&self) -> Result<Option<Box<dyn Any + Send>>> {
        Ok(None)
    }
}
