//! Many waiters of one process, one place on the server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::model::LockName;

/// For each name, the line of this client's waiters: only its head talks to the server (C26).
///
/// Without it a thousand tasks that want one lock would be a thousand waiters there.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalQueue {
    lines: Arc<Mutex<HashMap<LockName, Arc<Semaphore>>>>,
}

impl LocalQueue {
    /// Waits, first come first served, to be the head of the line for `name`.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the line.
    pub(crate) async fn turn(&self, name: &LockName) -> Turn {
        let line = self.line(name);
        let position =
            LinePosition { queue: self.clone(), name: name.clone(), line: Some(line.clone()) };
        // The semaphore is never closed, so there is always a permit to come.
        let permit = line.acquire_owned().await.ok();
        Turn { _permit: permit, _position: position }
    }

    fn line(&self, name: &LockName) -> Arc<Semaphore> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.entry(name.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// The head of a line. The next in line moves up when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    // Given back before the position, which looks whether anyone else uses the line.
    _permit: Option<OwnedSemaphorePermit>,
    _position: LinePosition,
}

#[derive(Debug)]
struct LinePosition {
    queue: LocalQueue,
    name: LockName,
    line: Option<Arc<Semaphore>>,
}

impl Drop for LinePosition {
    fn drop(&mut self) {
        let mut lines = self.queue.lines.lock().unwrap_or_else(PoisonError::into_inner);
        // Let go under the lock, so that of two who leave together the second sees that it is last.
        self.line = None;
        if lines.get(&self.name).is_some_and(|line| Arc::strong_count(line) == 1) {
            lines.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn c26_waiters_move_up_in_order_and_leave_nothing() {
        let queue = LocalQueue::default();
        let name = LockName::new("a").expect("a name");
        let first = queue.turn(&name).await;
        let mut second = Box::pin(queue.turn(&name));
        let mut third = Box::pin(queue.turn(&name));
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        drop(first);
        assert!((&mut third).now_or_never().is_none(), "the third overtook the second");
        let second = second.await;
        drop(second);
        drop(third.await);
        assert_eq!(queue.len(), 0);
    }

    #[tokio::test]
    async fn c19_a_cancelled_waiter_leaves_the_line() {
        let queue = LocalQueue::default();
        let name = LockName::new("a").expect("a name");
        let first = queue.turn(&name).await;
        assert!(queue.turn(&name).now_or_never().is_none());
        drop(first);
        drop(queue.turn(&name).now_or_never().expect("the line is free"));
        assert_eq!(queue.len(), 0);
    }
}
