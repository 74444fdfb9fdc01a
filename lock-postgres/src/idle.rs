//! Keeps values for their next use, and closes those that nobody used for a while.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// Idle values, the most recently used last.
///
/// ```text
///        put            nobody takes it for the limit
///   ───────────▶ kept ───────────────────────────────▶ closed, by a task that ends with the last one
///   ◀───────────
///       take
/// ```
pub(crate) struct Idle<T> {
    limit: Duration,
    kept: Arc<Mutex<Kept<T>>>,
}

struct Kept<T> {
    values: Vec<(T, Instant)>,
    /// Task that closes old values; it runs while any are kept.
    closer: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Idle<T> {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, kept: Arc::new(Mutex::new(Kept { values: Vec::new(), closer: None })) }
    }

    /// Keeps a value, and at most `at_most` in all.
    pub(crate) fn put(&self, value: T, at_most: usize) {
        let mut kept = self.kept.lock();
        kept.values.push((value, Instant::now()));
        if kept.values.len() > at_most {
            kept.values.remove(0);
        }
        // C20: a request may be dropped outside of a runtime. The next value that is kept starts the task.
        // So it does if their runtime ended.
        if kept.closer.as_ref().is_none_or(JoinHandle::is_finished)
            && let Ok(runtime) = Handle::try_current()
        {
            kept.closer =
                Some(runtime.spawn(close_the_old(Arc::downgrade(&self.kept), self.limit)));
        }
    }

    /// Takes the value that `choose` picks, if it picks one.
    pub(crate) fn take(&self, choose: impl FnOnce(&[(T, Instant)]) -> Option<usize>) -> Option<T> {
        let mut kept = self.kept.lock();
        let at = choose(&kept.values)?;
        Some(kept.values.remove(at).0)
    }

    /// Closes all.
    pub(crate) fn clear(&self) {
        self.kept.lock().values.clear();
    }
}

impl<T> Drop for Idle<T> {
    fn drop(&mut self) {
        if let Some(closer) = self.kept.lock().closer.take() {
            closer.abort();
        }
    }
}

async fn close_the_old<T>(kept: Weak<Mutex<Kept<T>>>, limit: Duration) {
    while let Some(next) = kept.upgrade().and_then(|kept| close_and_look(&kept, limit)) {
        sleep_until(next).await;
    }
}

/// Closes values that are too old; returns when the next one will be, if any is left.
fn close_and_look<T>(kept: &Mutex<Kept<T>>, limit: Duration) -> Option<Instant> {
    let mut kept = kept.lock();
    kept.values.retain(|(_, since)| since.elapsed() < limit);
    let next = kept.values.iter().map(|(_, since)| *since + limit).min();
    if next.is_none() {
        // The task is removed under the mutex, so that a value kept from now on starts a new task.
        kept.closer = None;
    }
    next
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;
    use tokio::time::sleep;

    use super::*;

    #[test]
    fn c26_values_are_closed_although_the_runtime_that_kept_the_first_has_ended() {
        let runtime = || Builder::new_current_thread().enable_time().start_paused(true).build();
        let limit = Duration::from_secs(60);
        let (idle, value) = (Idle::new(limit), Arc::new(()));
        let first = runtime().expect("a runtime");
        first.block_on(async { idle.put(value.clone(), 8) });
        drop(first);
        runtime().expect("a runtime").block_on(async {
            idle.put(value.clone(), 8);
            sleep(limit * 2).await;
        });
        assert_eq!(Arc::strong_count(&value), 1, "kept for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn c26_what_nobody_uses_is_closed_without_a_next_use() {
        let (idle, limit) = (Idle::new(Duration::from_secs(60)), Duration::from_secs(60));
        for _ in 0..2 {
            let value = Arc::new(());
            let watch = Arc::downgrade(&value);
            idle.put(value, 8);
            sleep(limit / 2).await;
            let taken =
                idle.take(|kept| kept.len().checked_sub(1)).expect("kept for half of the limit");
            idle.put(taken, 8);
            sleep(limit * 3 / 4).await;
            assert!(watch.upgrade().is_some(), "closed before its time");
            sleep(limit).await;
            assert!(watch.upgrade().is_none(), "kept for ever");
        }
    }
}
