//! Stores of the bench: its own servers, a directory, this process. The file of a store also has the store's floors,
//! and its peers: other libraries, locks that the server offers, and the usual recipe.

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
use futures_util::future::LocalBoxFuture;

use crate::client::Result;
use crate::contender::Contender;

pub(crate) type Starting = LocalBoxFuture<'static, Result<Box<dyn Store>>>;

/// A measured backend.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) start: fn() -> Starting,
    /// The contenders, the project first.
    pub(crate) contenders: &'static [Contender],
    /// The lowest possible cost of an acquire and a release: as many requests of the same size, without a lock.
    pub(crate) floor: Option<Contender>,
    /// Label of the hand-off baseline.
    pub(crate) wake_up: &'static str,
}

#[async_trait]
pub(crate) trait Store: Send + Sync {
    /// URL by which the project, and most peers, connect.
    fn url(&self) -> String;

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

/// The lowest possible cost of a hand-off: one side sends a message through the store, and the other waits for it.
#[async_trait]
pub(crate) trait WakeUp: Send {
    /// Returns the time from the sending until the other side has the message.
    async fn once(&mut self) -> Result<Duration>;
}
