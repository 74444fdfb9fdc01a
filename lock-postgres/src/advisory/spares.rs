//! Sessions that hold nothing, kept for the next lock.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::session::LockSession;

/// A session that nobody used for this long is closed when another is taken or put back.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

pub(super) struct Spares {
    at_most: usize,
    idle: Mutex<Vec<(LockSession, Instant)>>,
}

impl Spares {
    pub(super) fn new(at_most: usize) -> Self {
        Self { at_most, idle: Mutex::default() }
    }

    /// The one that was used last, so that those that are not needed come to be closed.
    pub(super) fn take(&self) -> Option<LockSession> {
        self.fresh().pop().map(|(session, _)| session)
    }

    /// Keeps a session that holds nothing, and of which no answer is outstanding.
    pub(super) fn put_back(&self, session: LockSession) {
        let mut idle = self.fresh();
        idle.push((session, Instant::now()));
        if idle.len() > self.at_most {
            idle.remove(0);
        }
    }

    /// Closes all: one like them was silent.
    pub(super) fn give_up_all(&self) {
        self.idle().clear();
    }

    fn fresh(&self) -> MutexGuard<'_, Vec<(LockSession, Instant)>> {
        let mut idle = self.idle();
        idle.retain(|(_, since)| since.elapsed() < IDLE_LIMIT);
        idle
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(LockSession, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
