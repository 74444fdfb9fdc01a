//! One request on its way to the server for many tries of one process.

use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::model::{BackendError, Contention, LockError, LockName};
use crate::sync::{Mutex, MutexGuard, locked};

/// The tries of this client in flight, by name: one at a time asks the server, and its answer serves others.
///
/// "Busy" serves each try that began before the request was sent, since the server looked during that try. A grant
/// serves, as "busy", each try that began before the grant came. All other tries ask in their turn.
///
/// A try that has had no answer for half of a request time-out may not be polled: one other try then asks beside it.
/// A try with little time left asks no more, since it would get no answer. So a slow server gets few requests,
/// however many tries there are.
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
    /// Has a permit while no try has the turn.
    free: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Number of requests so far. A grant counts once more when it comes.
    begun: u64,
    /// Number of the request of the try that has the turn, and the time from which on another may take the turn.
    asking: (u64, Instant),
    /// The last "busy", with the number of its request.
    busy: Option<(u64, Contention)>,
    /// Error of the last request, if it failed.
    failed: Option<BackendError>,
}

/// A try of this client.
#[derive(Debug)]
pub(crate) struct OneTry<'a> {
    tries: &'a Tries,
    name: LockName,
    turns: Arc<Turns>,
    /// Number of requests that had been sent when the try began.
    begun: u64,
    limit: Duration,
    end: Instant,
}

/// Outcome of the wait for a turn.
#[derive(Debug)]
pub(crate) enum TryTurn<'a> {
    Ask(Asking<'a>),
    Busy(Contention),
    /// No request of the other tries had an answer in time. Returns the error of the last one, if it failed.
    Unanswered(Option<BackendError>),
}

/// The try that asks the server. Its drop lets the next one ask.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    turns: &'a Turns,
    /// Number of its request.
    number: u64,
}

impl Tries {
    /// Begins a try that ends after `limit`.
    pub(crate) fn begin(&self, name: &LockName, limit: Duration) -> OneTry<'_> {
        let mut names = locked(&self.names);
        let entry = names.entry(name.clone()).or_default();
        entry.tries += 1;
        let turns = entry.turns.clone();
        drop(names);
        let (begun, end) = (turns.state().begun, Instant::now() + limit);
        OneTry { tries: self, name: name.clone(), turns, begun, limit, end }
    }
}

impl Default for Turns {
    fn default() -> Self {
        let state = State { begun: 0, asking: (0, Instant::now()), busy: None, failed: None };
        Self { free: Semaphore::new(1), state: Mutex::new(state) }
    }
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

impl OneTry<'_> {
    /// Waits for the turn, first come first served, or for an answer to another try.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub(crate) async fn turn(&self) -> TryTurn<'_> {
        loop {
            let until = match self.is_late() {
                true => self.end,
                false => self.turns.state().asking.1.min(self.end - self.limit / 4),
            };
            let free = timeout_at(until, self.turns.free.acquire()).await;
            let (mut state, now) = (self.turns.state(), Instant::now());
            if let Some((number, seen)) = &state.busy
                && *number > self.begun
            {
                return TryTurn::Busy(seen.clone());
            }
            if self.is_late() && (free.is_ok() || now >= self.end) {
                return TryTurn::Unanswered(state.failed.clone());
            }
            match free {
                // The semaphore is never closed, so a permit always comes.
                Ok(free) => free.into_iter().for_each(SemaphorePermit::forget),
                Err(_) if self.is_late() || now < state.asking.1 => continue,
                Err(_) => {}
            }
            let number = state.begun + 1;
            (state.begun, state.asking, state.failed) =
                (number, (number, now + self.limit / 2), None);
            return TryTurn::Ask(Asking { turns: &self.turns, number });
        }
    }

    /// Returns true if too little time is left for a request of its own.
    fn is_late(&self) -> bool {
        Instant::now() + self.limit / 4 >= self.end
    }
}

impl Asking<'_> {
    /// Notes the server's answer: "busy", none, or a grant, after which the lock is busy for all others.
    pub(crate) fn answered(self, answer: Result<Contention, &LockError>) {
        let mut state = self.turns.state();
        match answer {
            Ok(held) => {
                state.begun += 1;
                state.busy = Some((state.begun, held));
            }
            Err(LockError::Backend { source, .. }) => state.failed = Some(source.clone()),
            Err(error) => {
                let busy = error.contention().map(|seen| (self.number, seen.clone()));
                state.busy = busy.or(state.busy.take());
            }
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        // Another may have taken the turn.
        if self.turns.state().asking.0 == self.number {
            self.turns.free.add_permits(1);
        }
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

    const LIMIT: Duration = Duration::from_secs(2);

    fn busy() -> LockError {
        LockError::NotAcquired { name: name(), contention: Contention::unknown() }
    }

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

    #[tokio::test]
    async fn c26_busy_serves_each_try_that_began_before_its_request() {
        let tries = Tries::default();
        let (one, before) = (tries.begin(&name(), LIMIT), tries.begin(&name(), LIMIT));
        let asking = asks(one.turn().now_or_never());
        let after = tries.begin(&name(), LIMIT);
        assert!(before.turn().now_or_never().is_none(), "two ask at once");
        asking.answered(Err(&busy()));
        assert!(is_busy(before.turn().now_or_never()));
        let asking = asks(after.turn().now_or_never());
        drop(asking);
        drop((one, before, after));
        assert!(locked(&tries.names).is_empty(), "something is left");
    }

    #[tokio::test]
    async fn c26_a_grant_makes_the_lock_busy_for_each_try_that_began_before_it_came() {
        let tries = Tries::default();
        let one = tries.begin(&name(), LIMIT);
        let asking = asks(one.turn().now_or_never());
        let during = tries.begin(&name(), LIMIT);
        asking.answered(Ok(Contention::unknown()));
        let after = tries.begin(&name(), LIMIT);
        assert!(is_busy(during.turn().now_or_never()));
        asks(after.turn().now_or_never());
    }

    #[tokio::test]
    async fn c19_a_request_that_was_given_up_serves_nobody() {
        let tries = Tries::default();
        let [one, two] = [(); 2].map(|()| tries.begin(&name(), LIMIT));
        asks(one.turn().now_or_never()).answered(Err(&busy()));
        let [three, four] = [(); 2].map(|()| tries.begin(&name(), LIMIT));
        drop(asks(three.turn().now_or_never()));
        asks(four.turn().now_or_never()).answered(Err(&busy()));
        assert!(is_busy(two.turn().now_or_never()));
    }

    /// A thread that drops its try frees the entry's turns after the try has been counted.
    #[tokio::test]
    async fn r1_the_last_try_takes_its_entry_along_while_another_thread_frees_its_turns() {
        let tries = Tries::default();
        let one = tries.begin(&name(), LIMIT);
        let freed_later = one.turns.clone();
        drop(one);
        assert!(locked(&tries.names).is_empty(), "something is left");
        drop(freed_later);
    }
}
