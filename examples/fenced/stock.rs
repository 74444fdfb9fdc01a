//! The stock that the lock guards.

use async_trait::async_trait;
use leasehold::FencingToken;

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// The lock that guards the stock.
pub(crate) const LOCK: &str = "example:shop";

/// Key of the stock, and name of its fence.
pub(crate) const STOCK: &str = "example:lamps";

/// The number of lamps of a shop, in a place where a stale worker could do damage.
#[async_trait]
pub(crate) trait Stock: Send + Sync {
    async fn fill(&self, lamps: i64) -> Result<(), Error>;

    /// Shows the token to the fence, then reads.
    async fn read(&self, token: FencingToken) -> Result<i64, Error>;

    /// Writes unless the fence has seen a greater token; returns true if it wrote.
    async fn write(&self, token: FencingToken, lamps: i64) -> Result<bool, Error>;
}
