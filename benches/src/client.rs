//! The interface of every contender.

use std::time::Duration;

use async_trait::async_trait;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Default TTL of locks.
pub(crate) const TTL: Duration = Duration::from_secs(10);

/// Acquires and releases locks by name, one at a time: the project, another library, a recipe, or the plain
/// requests of the floor.
#[async_trait]
pub(crate) trait Client: Send {
    /// Connects a client of its own to the store at a URL.
    async fn connect(url: &str) -> Result<Self>
    where
        Self: Sized;

    async fn acquire(&mut self, name: &str) -> Result<()>;
    async fn release(&mut self, name: &str) -> Result<()>;

    /// Returns the same client for another task. The two share everything that clients of this kind share.
    fn another(&self) -> Box<dyn Client>;

    /// Stops background work, so that none goes on during the next contender's turn.
    async fn close(&mut self) {}
}

/// Returns a name that no lock had before.
pub(crate) fn fresh_name(what: &str) -> String {
    format!("{what}-{:016x}", rand::random::<u64>())
}
