//! The order that a task works on.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task_local;

/// Identifies an order among all tests of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order(u64);

task_local! {
    /// The order that this task works on.
    static CURRENT: Order;
}

impl Order {
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn current() -> Option<Self> {
        CURRENT.try_with(|order| *order).ok()
    }

    /// Runs `work` as work on this order.
    pub(crate) async fn scope<T>(self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self, work).await
    }
}
