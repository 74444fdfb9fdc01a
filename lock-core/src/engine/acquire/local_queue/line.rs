//! One line: its waiters in order of arrival, its head, and its holder.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::answers::LineAnswers;
use super::opening::Opening;
use crate::engine::hold::Hold;
use crate::sync::{Mutex, MutexGuard, locked};

#[derive(Debug)]
pub(super) struct Line<H> {
    state: Mutex<LineState<H>>,
    /// Signals the head that a hold is passed, or that a holder ended otherwise.
    pub(super) changed: Notify,
    pub(super) answers: Arc<LineAnswers>,
}

#[derive(Debug)]
pub(super) struct LineState<H> {
    /// The waiters by number. The first one is the head, or will be.
    waiters: BTreeMap<u64, Waiter>,
    /// Numbers waiters and holders, in order of arrival.
    drawn: u64,
    has_head: bool,
    pub(super) opening: Opening,
    pub(super) holder: Option<Holder>,
    /// True if the head has gone on to the server: it takes no passed hold.
    pub(super) head_asks_server: bool,
    pub(super) passed: Option<H>,
    /// Time from which on holders outside of this line hold the lock, as far as is known.
    pub(super) rivals_since: Option<Instant>,
}

/// A holder that may pass its hold on.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) id: u64,
    pub(super) hold: Arc<Hold>,
    /// Time until which the head waits for that.
    pub(super) until: Instant,
}

impl Holder {
    /// Returns true while the head waits for this holder.
    pub(super) fn is_awaited(&self) -> bool {
        self.until > Instant::now() && !self.hold.is_lost()
    }
}

#[derive(Debug)]
struct Waiter {
    /// Most claims of its kind that may hold the lock together.
    together: usize,
    /// True while it asks the server, and lets others ask beside it.
    asks: bool,
    waker: Option<Waker>,
}

/// Role of a waiter that may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Head,
    /// Asks beside the head, without a place on the server.
    Beside,
}

impl<H> Line<H> {
    pub(super) fn new() -> Self {
        let state = LineState {
            waiters: BTreeMap::new(),
            drawn: 0,
            has_head: false,
            opening: Opening::new(),
            holder: None,
            head_asks_server: false,
            passed: None,
            rivals_since: None,
        };
        let (state, changed) = (Mutex::new(state), Notify::new());
        Self { state, changed, answers: Arc::new(LineAnswers::new()) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, LineState<H>> {
        locked(&self.state)
    }

    /// Changes the state, and wakes the waiters that may ask from then on, after the state is unlocked.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut LineState<H>) -> T) -> T {
        let mut state = self.state();
        let result = change(&mut state);
        let ready = state.ready();
        drop(state);
        ready.into_iter().for_each(Waker::wake);
        result
    }

    /// Returns the role of a waiter, once it may ask.
    pub(super) fn poll_role(&self, number: u64, context: &Context<'_>) -> Poll<Role> {
        let mut state = self.state();
        let role = state.role_of(number);
        let Some(waiter) = state.waiters.get_mut(&number) else { return Poll::Pending };
        // The old waker is dropped after the state is unlocked.
        let _old = match role {
            Some(role) => {
                waiter.asks = waiter.together > 1;
                let old = waiter.waker.take();
                state.has_head |= role == Role::Head;
                old
            }
            None => waiter.waker.replace(context.waker().clone()),
        };
        drop(state);
        role.map_or(Poll::Pending, Poll::Ready)
    }

    /// Gives back a passed hold or place that the head has not taken, after the state is unlocked.
    pub(super) fn give_back(&self) {
        let untaken = self.state().passed.take();
        drop(untaken);
    }
}

impl<H> LineState<H> {
    /// Adds a waiter; returns its number.
    pub(super) fn join(&mut self, together: usize) -> u64 {
        let number = self.draw();
        self.waiters.insert(number, Waiter { together, asks: false, waker: None });
        number
    }

    /// Removes a waiter. Returns what was passed if nobody is left to take it.
    pub(super) fn leave(&mut self, number: u64, was_head: bool) -> Option<H> {
        if self.waiters.remove(&number).is_some() && was_head {
            (self.has_head, self.head_asks_server) = (false, false);
        }
        if !self.waiters.is_empty() {
            return None;
        }
        // An empty map keeps memory, for as long as the hold of the last waiter.
        self.waiters = BTreeMap::new();
        self.passed.take()
    }

    /// Returns a waiter that asked to its place in line.
    pub(super) fn asks_no_more(&mut self, number: u64) {
        if let Some(waiter) = self.waiters.get_mut(&number) {
            waiter.asks = false;
        }
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    /// Returns the number that was drawn last.
    pub(super) fn newest(&self) -> u64 {
        self.drawn
    }

    /// Returns the number of the first waiter.
    pub(super) fn first(&self) -> Option<u64> {
        self.waiters.first_key_value().map(|(number, _)| *number)
    }

    pub(super) fn waiters(&self) -> usize {
        self.waiters.len()
    }

    /// Returns true if the head or the next head asks the server, as a head does that waited for its holder for long.
    pub(super) fn takes_nothing(&self) -> bool {
        let waits = self.holder.as_ref().is_some_and(Holder::is_awaited);
        !waits || self.head_asks_server || self.passed.is_some()
    }

    /// Takes the time for which holders outside of this line held the lock since the last hold of the line.
    pub(super) fn take_rivals_time(&mut self) -> Duration {
        self.rivals_since.take().map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Returns the role of a waiter that may ask: as the head, or beside those before it that ask already.
    fn role_of(&self, number: u64) -> Option<Role> {
        if !self.has_head && self.first() == Some(number) {
            return Some(Role::Head);
        }
        let width = self.waiters.get(&number)?.together.min(self.opening.width());
        let before = self.waiters.range(..number).take(width);
        let (count, all_ask) =
            before.fold((0, true), |(count, all), (_, waiter)| (count + 1, all && waiter.asks));
        (all_ask && count > 0 && count < width).then_some(Role::Beside)
    }

    /// Takes the wakers of those that may ask now.
    fn ready(&mut self) -> Vec<Waker> {
        let (width, has_head) = (self.opening.width(), self.has_head);
        let mut ready = Vec::new();
        for (position, waiter) in self.waiters.values_mut().enumerate() {
            let may_ask =
                if position == 0 { !has_head } else { position < width.min(waiter.together) };
            if !waiter.asks && may_ask {
                ready.extend(waiter.waker.take());
            }
            if waiter.together == 1 || !(waiter.asks || may_ask) {
                break;
            }
        }
        ready
    }
}
