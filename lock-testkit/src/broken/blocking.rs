//! A driver that blocks.

use std::thread::sleep;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{BackendError, LockAdmin, LockState, MemoryBackend};

use super::flaw::Flaw;

/// What a disk takes, or a server nearby.
const TAKES: Duration = Duration::from_millis(20);

/// Waits for its disk on the caller's thread, in each call.
#[derive(Debug, Default)]
pub(super) struct Blocking(MemoryBackend);

impl Flaw for Blocking {
    fn sound(&self) -> &MemoryBackend {
        sleep(TAKES);
        &self.0
    }
}

/// Waits for its disk on the caller's thread, where it lists the locks alone.
#[derive(Debug, Default)]
pub(super) struct BlockingList(MemoryBackend);

#[async_trait]
impl Flaw for BlockingList {
    fn sound(&self) -> &MemoryBackend {
        &self.0
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        sleep(TAKES);
        self.0.list(prefix, limit).await
    }
}
