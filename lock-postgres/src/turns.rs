//! Bounds the attempts in progress at one lock.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use lock_core::LockName;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Lets a few attempts at each lock through at a time, in order of arrival.
///
/// C19: while somebody else keeps a lock's row locked, each attempt at that lock occupies a connection until the
/// server gives up. The other connections stay free for other locks.
pub(crate) struct Turns {
    at_a_time: usize,
    by_lock: Mutex<HashMap<LockName, Weak<Semaphore>>>,
}

impl Turns {
    pub(crate) fn new(at_a_time: usize) -> Self {
        Self { at_a_time, by_lock: Mutex::default() }
    }

    /// Waits for a turn at a lock; dropping the permit ends the turn.
    pub(crate) async fn turn(&self, name: &LockName) -> Option<OwnedSemaphorePermit> {
        // `acquire_owned` fails only on a closed semaphore, and these are never closed.
        self.semaphore(name).acquire_owned().await.ok()
    }

    fn semaphore(&self, name: &LockName) -> Arc<Semaphore> {
        let mut by_lock = self.by_lock.lock();
        if let Some(known) = by_lock.get(name).and_then(Weak::upgrade) {
            return known;
        }
        // R4: forgets locks without attempts before the map grows.
        if by_lock.len() == by_lock.capacity() {
            by_lock.retain(|_, semaphore| semaphore.strong_count() > 0);
        }
        let new = Arc::new(Semaphore::new(self.at_a_time));
        by_lock.insert(name.clone(), Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn name(name: &str) -> LockName {
        LockName::new(name).expect("a good name")
    }

    #[tokio::test]
    async fn c19_attempts_at_one_lock_take_turns_and_hold_up_no_other() {
        let turns = Turns::new(2);
        let (first, _second) = (turns.turn(&name("a")).await, turns.turn(&name("a")).await);
        assert!(turns.turn(&name("a")).now_or_never().is_none(), "a third at the same time");
        assert!(turns.turn(&name("b")).now_or_never().is_some(), "another lock waits as well");
        drop(first);
        assert!(turns.turn(&name("a")).now_or_never().is_some(), "a turn that never ends");
    }

    #[tokio::test]
    async fn r4_locks_at_which_nobody_tries_are_forgotten() {
        let turns = Turns::new(1);
        for number in 0..10_000 {
            turns.turn(&name(&number.to_string())).await;
        }
        let known = turns.by_lock.lock().len();
        assert!(known < 100, "{known} locks are known");
    }
}
