//! The types that threads share, at whose use the schedule may change to another thread.

use std::task::Waker;

pub(crate) use shuttle::sync::{Mutex, MutexGuard};

/// Behaves as the waker of futures-util; each of its methods is one step.
#[derive(Default)]
pub(crate) struct AtomicWaker(Mutex<Option<Waker>>);

impl AtomicWaker {
    pub(crate) fn register(&self, waker: &Waker) {
        self.put(Some(waker.clone()));
    }

    pub(crate) fn take(&self) -> Option<Waker> {
        self.put(None)
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = self.take() {
            waker.wake();
        }
    }

    fn put(&self, waker: Option<Waker>) -> Option<Waker> {
        std::mem::replace(&mut self.0.lock().unwrap(), waker)
    }
}
