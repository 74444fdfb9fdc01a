//! The least that a hand-off could cost.

use std::time::Duration;

use async_trait::async_trait;

use crate::client::Result;

/// One side sends a message through the store, the other waits for it.
#[async_trait]
pub(crate) trait WakeUp: Send {
    /// From the sending until the other side has the message.
    async fn once(&mut self) -> Result<Duration>;
}
