//! A driver that blocks.

use std::thread::sleep;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::LockAdmin;

use super::flaw::{Flaw, Listed, Sound};

/// Delay of a disk, or of a server nearby.
const TAKES: Duration = Duration::from_millis(20);

/// Waits for its disk on the caller's thread in each call.
#[derive(Debug)]
pub(super) struct Blocking;

impl Flaw for Blocking {
    fn begin(&self) {
        sleep(TAKES);
    }
}

/// Waits for its disk on the caller's thread, but only to list the locks.
#[derive(Debug)]
pub(super) struct BlockingList;

#[async_trait]
impl Flaw for BlockingList {
    async fn list(&self, sound: &Sound, prefix: &str, limit: usize) -> Listed {
        sleep(TAKES);
        sound.list(prefix, limit).await
    }
}
