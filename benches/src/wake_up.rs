//! The lowest possible cost of a hand-off.

use std::time::Duration;

use async_trait::async_trait;

use crate::client::Result;

/// One side sends a message through the store, and the other waits for it.
#[async_trait]
pub(crate) trait WakeUp: Send {
    /// Returns the time from the sending until the other side has the message.
    async fn once(&mut self) -> Result<Duration>;
}
