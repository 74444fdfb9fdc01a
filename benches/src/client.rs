//! Abilities of every contender.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

pub(crate) type Connecting = BoxFuture<'static, Result<Box<dyn Client>>>;

/// The TTL of locks, where the workload has no other.
pub(crate) const TTL: Duration = Duration::from_secs(10);

/// Takes and gives back locks by name, one at a time: the project, another library, a recipe, or the plain
/// requests that are the least it could cost.
#[async_trait]
pub(crate) trait Client: Send {
    async fn acquire(&mut self, name: &str) -> Result<()>;
    async fn release(&mut self, name: &str) -> Result<()>;

    /// The same client in the hands of another task: it shares what clients of its kind share.
    fn another(&self) -> Box<dyn Client>;

    /// Leaves nothing behind that goes on beside the next contender's work.
    async fn close(&mut self) {}
}

/// A lock's name that nobody has had.
pub(crate) fn fresh_name(what: &str) -> String {
    format!("{what}-{:016x}", rand::random::<u64>())
}
