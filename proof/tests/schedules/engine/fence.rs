//! Holders with different tokens advance one fence.

use std::sync::Arc;

use lock_core_shuttled::{Fence, FencingToken, MemoryFence};
use shuttle::future::spawn;

pub(super) async fn play() {
    let fence = Arc::new(MemoryFence::new());
    let holders = [1, 2, 3].map(|token| {
        let (fence, token) = (fence.clone(), FencingToken::new(token).unwrap());
        spawn(async move { fence.advance(token).await.is_ok().then_some(token) })
    });
    let mut accepted = None;
    for holder in holders {
        accepted = accepted.max(holder.await.unwrap());
    }
    assert_eq!(fence.seen().await.unwrap(), accepted, "C24: the fence went back");
}
