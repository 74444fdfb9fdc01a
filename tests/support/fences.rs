//! Checks of the fences of all servers.

use leasehold::{Fence, FenceError, FencingToken};

/// C35: a check compares, and stores nothing. `fence` has seen no token yet.
pub(crate) async fn check_remembers_nothing(fence: &dyn Fence) {
    let [earlier, later] = [5, 7].map(|token| FencingToken::new(token).expect("a token"));
    assert_eq!(fence.seen().await.expect("an answer"), None);
    fence.check(later).await.expect("nothing was seen");
    fence.advance(earlier).await.expect("a check does not advance");
    fence.check(earlier).await.expect("equal passes");
    fence.advance(later).await.expect("the newest");
    let refused = fence.check(earlier).await;
    assert!(matches!(refused, Err(FenceError::Stale { seen, .. }) if seen == later), "{refused:?}");
    assert_eq!(fence.seen().await.expect("an answer"), Some(later));
}
