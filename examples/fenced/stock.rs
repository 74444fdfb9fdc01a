//! The stock that the lock protects.

use async_trait::async_trait;
use leasehold::FencingToken;

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// The lock that protects the stock.
pub(crate) const LOCK: &str = "example:shop";

/// Where the stock is kept, and what its fence is called.
pub(crate) const STOCK: &str = "example:lamps";

/// The lamps that a shop has left, kept where a stale worker could do damage.
#[async_trait]
pub(crate) trait Stock: Send + Sync {
    async fn fill(&self, lamps: i64) -> Result<(), Error>;

    /// Shows the token to the fence, then reads.
    async fn read(&self, token: FencingToken) -> Result<i64, Error>;

    /// Writes, unless the fence has seen a greater token; whether it wrote.
    async fn write(&self, token: FencingToken, lamps: i64) -> Result<bool, Error>;
}
