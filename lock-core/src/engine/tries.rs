//! One request on its way to the server for many tries of one process.

use std::sync::Arc;

use foldhash::HashMap;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::model::{Contention, LockName};
use crate::sync::{Mutex, MutexGuard, locked};

/// The tries of this client in flight, by name: one at a time asks the server, and its answer serves others.
///
/// "Busy" serves each try that began before the request was sent, since the server looked during that try. A grant
/// serves, as "busy", each try that began before the grant came. All other tries ask in their turn.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    names: Mutex<HashMap<LockName, Entry>>,
}

#[derive(Debug, Default)]
struct Entry {
    turns: Arc<Turns>,
    /// Number of tries. The last one removes the entry.
    tries: usize,
}

#[derive(Debug)]
struct Turns {
    asks: Semaphore,
    last: Mutex<LastAnswer>,
}

#[derive(Debug, Default)]
struct LastAnswer {
    /// Number of requests so far. A grant counts once more when it comes.
    begun: u64,
    busy: Option<Contention>,
}

/// A try of this client.
#[derive(Debug)]
pub(crate) struct OneTry<'a> {
    tries: &'a Tries,
    name: LockName,
    turns: Arc<Turns>,
    /// Number of requests that had been sent when the try began.
    begun: u64,
}

/// Outcome of the wait for a turn.
#[derive(Debug)]
pub(crate) enum TryTurn<'a> {
    Ask(Asking<'a>),
    Busy(Contention),
}

/// The only try of its name that asks the server. Its drop lets the next one ask.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    turns: &'a Turns,
    _permit: Option<SemaphorePermit<'a>>,
}

impl Tries {
    pub(crate) fn begin(&self, name: &LockName) -> OneTry<'_> {
        let mut names = locked(&self.names);
        let entry = names.entry(name.clone()).or_default();
        entry.tries += 1;
        let turns = entry.turns.clone();
        drop(names);
        let begun = turns.last().begun;
        OneTry { tries: self, name: name.clone(), turns, begun }
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self { asks: Semaphore::new(1), last: Mutex::default() }
    }
}

impl Turns {
    fn last(&self) -> MutexGuard<'_, LastAnswer> {
        locked(&self.last)
    }
}

impl OneTry<'_> {
    /// Waits until no other try asks, first come first served.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub(crate) async fn turn(&self) -> TryTurn<'_> {
        // The semaphore is never closed, so a permit always comes.
        let permit = self.turns.asks.acquire().await.ok();
        let mut last = self.turns.last();
        if last.begun > self.begun
            && let Some(seen) = &last.busy
        {
            return TryTurn::Busy(seen.clone());
        }
        *last = LastAnswer { begun: last.begun + 1, busy: None };
        TryTurn::Ask(Asking { turns: &self.turns, _permit: permit })
    }
}

impl Asking<'_> {
    /// Notes that the server answered "busy".
    pub(crate) fn busy(self, seen: Contention) {
        self.turns.last().busy = Some(seen);
    }

    /// Notes that the server granted the lock: for all others it is busy now.
    pub(crate) fn granted(self) {
        let mut last = self.turns.last();
        *last = LastAnswer { begun: last.begun + 1, busy: Some(Contention::unknown()) };
    }
}

impl Drop for OneTry<'_> {
    fn drop(&mut self) {
        let mut names = locked(&self.tries.names);
        if let Some(entry) = names.get_mut(&self.name) {
            entry.tries -= 1;
            if entry.tries == 0 {
                names.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn name() -> LockName {
        LockName::new("a").expect("a name")
    }

    fn asks(turn: Option<TryTurn<'_>>) -> Asking<'_> {
        match turn {
            Some(TryTurn::Ask(asking)) => asking,
            other => panic!("it is to ask: {other:?}"),
        }
    }

    fn is_busy(turn: Option<TryTurn<'_>>) -> bool {
        matches!(turn, Some(TryTurn::Busy(_)))
    }

    #[test]
    fn c26_busy_serves_each_try_that_began_before_its_request() {
        let tries = Tries::default();
        let (one, before) = (tries.begin(&name()), tries.begin(&name()));
        let asking = asks(one.turn().now_or_never());
        let after = tries.begin(&name());
        assert!(before.turn().now_or_never().is_none(), "two ask at once");
        asking.busy(Contention::unknown());
        assert!(is_busy(before.turn().now_or_never()));
        let asking = asks(after.turn().now_or_never());
        drop(asking);
        drop((one, before, after));
        assert!(locked(&tries.names).is_empty(), "something is left");
    }

    #[test]
    fn c26_a_grant_makes_the_lock_busy_for_each_try_that_began_before_it_came() {
        let tries = Tries::default();
        let one = tries.begin(&name());
        let asking = asks(one.turn().now_or_never());
        let during = tries.begin(&name());
        asking.granted();
        let after = tries.begin(&name());
        assert!(is_busy(during.turn().now_or_never()));
        asks(after.turn().now_or_never());
    }

    #[test]
    fn c19_a_request_that_was_given_up_serves_nobody() {
        let tries = Tries::default();
        let (one, two, three) = (tries.begin(&name()), tries.begin(&name()), tries.begin(&name()));
        asks(one.turn().now_or_never()).busy(Contention::unknown());
        let four = tries.begin(&name());
        drop(asks(four.turn().now_or_never()));
        asks(two.turn().now_or_never()).busy(Contention::unknown());
        assert!(is_busy(three.turn().now_or_never()));
    }

    /// A thread that drops its try frees the entry's turns after the try has been counted.
    #[test]
    fn r1_the_last_try_takes_its_entry_along_while_another_thread_frees_its_turns() {
        let tries = Tries::default();
        let one = tries.begin(&name());
        let freed_later = one.turns.clone();
        drop(one);
        assert!(locked(&tries.names).is_empty(), "something is left");
        drop(freed_later);
    }
}
