//! The servers that can be measured.

use async_trait::async_trait;

use crate::client::{Peer, Result};
use crate::times::Times;

/// A server, and what can be measured on it.
#[async_trait]
pub(crate) trait System: Sync {
    fn url(&self) -> &str;

    /// Those that are compared, the project first.
    fn peers(&self) -> &'static [Peer];

    /// The least that an acquire and a release could cost here: two plain writes.
    fn two_writes(&self) -> Peer;

    /// What the least is called that a hand-off could cost.
    fn wake_up(&self) -> &'static str;

    /// From a message of one client until another has it, many times.
    async fn wake_ups(&self) -> Result<Times>;

    /// How many commands the server has carried out, if it counts them.
    async fn commands(&self) -> Result<Option<u64>> {
        Ok(None)
    }
}
