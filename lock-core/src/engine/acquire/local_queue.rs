//! One place on the server for many waiters of one process.

mod answers;
mod line;
mod opening;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, timeout_at};

pub(crate) use self::answers::{LineAnswers, LineSight, Outage};
use self::line::{Holder, Line, Role};
use crate::backend::FALLBACK_POLL;
use crate::engine::hold::Hold;
use crate::model::LockName;
use crate::sync::{Mutex, locked};

/// The line of this client's waiters for each name: only its head has a place on the server (C26).
///
/// Without it, a thousand tasks that want one lock would be a thousand waiters on the server. A holder that came out
/// of the line may pass its hold to the head without a request:
///
/// ```text
///                         it passes
///   in line ──▶ head ───────────────────▶ holds
///     │          │  waits for a holder       ▲ ▲
///     │          │  of the line              │ │ granted
///     │          └───────────────────▶ asks the server
///     │           there is none, it ended      │
///     │           otherwise, or it takes long  │ granted
///     └────────────────▶ asks beside the head ─┘
///       a kind that allows others beside it, while the server grants; a refusal leads back into the line
/// ```
///
/// A head that leaves while it asks the server passes its place there to the next head, which asks at once. A head that
/// nobody polls shows no sign of life for seconds, and the others ask the server beside it.
///
/// `H` is passed to the head: a hold, or such a place.
#[derive(Debug)]
pub(crate) struct LocalQueue<H> {
    lines: Arc<Mutex<HashMap<LockName, Entry<H>>>>,
}

#[derive(Debug)]
struct Entry<H> {
    line: Arc<Line<H>>,
    /// Number of waiters and holders. The last one removes the line.
    members: usize,
}

impl<H> LocalQueue<H> {
    /// Takes a place at the end of the line for `name`. Up to `together` claims of its kind may hold the lock together.
    /// A server that leaves a request without an answer for `patience` counts as silent.
    pub(crate) fn join(
        &self,
        name: &LockName,
        together: usize,
        patience: Duration,
    ) -> LinePlace<H> {
        let mut lines = locked(&self.lines);
        let entry = lines.entry(name.clone()).or_insert_with(Entry::new);
        entry.members += 1;
        let line = entry.line.clone();
        let number = line.state().join(together);
        drop(lines);
        let sight = LineSight { answers: line.answers.clone(), joined: Instant::now(), patience };
        let member = Member { lines: self.lines.clone(), name: name.clone(), line };
        LinePlace { member: Arc::new(member), number, is_head: false, sight }
    }

    /// Gives back the holds and places that were passed and not taken.
    pub(crate) fn give_back(&self) {
        let lines: Vec<_> = locked(&self.lines).values().map(|entry| entry.line.clone()).collect();
        lines.iter().for_each(|line| line.give_back());
    }

    /// Returns true if other tasks of this client wait for `name`, or hold it and may pass it on.
    pub(crate) fn has_line(&self, name: &LockName) -> bool {
        locked(&self.lines).contains_key(name)
    }
}

impl<H> Default for LocalQueue<H> {
    fn default() -> Self {
        Self { lines: Arc::default() }
    }
}

impl<H> Entry<H> {
    fn new() -> Self {
        Self { line: Arc::new(Line::new()), members: 0 }
    }
}

/// Next step of the head of a line.
enum NextStep<H> {
    Take(H),
    Wait(Instant),
    AskServer,
}

/// A member of a line.
#[derive(Debug)]
struct Member<H> {
    lines: Arc<Mutex<HashMap<LockName, Entry<H>>>>,
    name: LockName,
    line: Arc<Line<H>>,
}

impl<H> Drop for Member<H> {
    fn drop(&mut self) {
        let mut lines = locked(&self.lines);
        if let Some(entry) = lines.get_mut(&self.name) {
            entry.members -= 1;
            if entry.members == 0 {
                lines.remove(&self.name);
            }
        }
    }
}

/// A waiter's place in line. Its drop leaves the line.
#[derive(Debug)]
pub(crate) struct LinePlace<H> {
    member: Arc<Member<H>>,
    number: u64,
    is_head: bool,
    sight: LineSight,
}

/// The next move of a waiter.
#[derive(Debug)]
pub(crate) enum Move<H> {
    /// The waiter is the head.
    Lead(Turn<H>),
    /// The waiter asks the server beside the head, without a place in the queue there.
    AskBeside(LinePlace<H>),
    /// The waiter has left the line, whose head is not polled.
    Leave,
}

impl<H> LinePlace<H> {
    /// Returns the lock as this waiter sees it.
    pub(crate) fn sight(&self) -> LineSight {
        self.sight.clone()
    }

    /// Returns the record of the server's answers to this line.
    pub(crate) fn answers(&self) -> Arc<LineAnswers> {
        self.sight.answers.clone()
    }

    /// Waits, first come first served, until this waiter may ask the server.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the line.
    pub(crate) async fn next_move(mut self) -> Move<H> {
        let line = self.member.line.clone();
        // A task that acquires again and again lets others run, such as the janitor.
        consume_budget().await;
        loop {
            let until = line.answers.head_lives_until();
            let role = poll_fn(|context| line.poll_role(self.number, context));
            match timeout_at(until, role).await {
                Ok(Role::Head) => {
                    line.answers.see_head();
                    self.is_head = true;
                    return Move::Lead(Turn { place: self });
                }
                Ok(Role::Beside) => return Move::AskBeside(self),
                // L1: a future that was polled once and is kept may be the head for ever.
                Err(_) if line.answers.head_lives_until() <= Instant::now() => {
                    line.give_back();
                    return Move::Leave;
                }
                Err(_) => {}
            }
        }
    }

    /// Notes the answer to a waiter that asked beside the head, and returns to its place in line if it got no grant.
    pub(crate) fn asked_beside(&self, is_granted: bool) {
        self.member.line.change(|state| match is_granted {
            true => state.opening.granted(false),
            false => {
                state.opening.refused();
                state.asks_no_more(self.number);
            }
        });
    }
}

impl<H> Drop for LinePlace<H> {
    fn drop(&mut self) {
        let Self { member, number, is_head, .. } = self;
        if *is_head {
            member.line.answers.see_head();
        }
        // Gives back an untaken hold or place, after the state is unlocked.
        let untaken = member.line.change(|state| state.leave(*number, *is_head));
        drop(untaken);
    }
}

/// The head of a line. The next in line moves up when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<H> {
    place: LinePlace<H>,
}

impl<H> Turn<H> {
    /// Waits for the holder of this line to pass its hold on; `None` if the head must ask the server.
    ///
    /// Each look is a sign of life to the others in line. It also finds a loss of the hold, which its guard may outlive.
    ///
    /// # Cancel safety
    /// If the future is dropped, a passed hold stays for the next head.
    pub(crate) async fn passed(&self) -> Option<H> {
        let line = &self.place.member.line;
        loop {
            // Listens before it looks, so that no passed hold is missed.
            let mut changed = pin!(line.changed.notified());
            changed.as_mut().enable();
            line.answers.see_head();
            match self.next_step() {
                NextStep::Take(hold) => return Some(hold),
                NextStep::AskServer => return None,
                NextStep::Wait(until) => {
                    let look = until.min(Instant::now() + FALLBACK_POLL);
                    drop(timeout_at(look, changed).await);
                }
            }
        }
    }

    fn next_step(&self) -> NextStep<H> {
        let mut state = self.place.member.line.state();
        if let Some(passed) = state.passed.take() {
            state.head_asks_server = true;
            return NextStep::Take(passed);
        }
        match &state.holder {
            Some(holder) if holder.is_awaited() => NextStep::Wait(holder.until),
            _ => {
                state.head_asks_server = true;
                NextStep::AskServer
            }
        }
    }

    /// Goes on to the server: nothing more is passed to this head. Returns what an earlier head was passed and did
    /// not take.
    pub(crate) fn ask_server(&self) -> Option<H> {
        let mut state = self.place.member.line.state();
        state.head_asks_server = true;
        state.passed.take()
    }

    /// Returns the lock as the head sees it.
    pub(crate) fn sight(&self) -> LineSight {
        self.place.sight()
    }

    /// Returns the record of the server's answers to this line.
    pub(crate) fn answers(&self) -> Arc<LineAnswers> {
        self.place.answers()
    }

    /// Notes that the lock is busy: the head alone asks from then on.
    pub(crate) fn is_refused(&self) {
        self.place.member.line.change(|state| {
            state.opening.close();
            if state.holder.as_ref().is_none_or(|holder| holder.hold.is_lost()) {
                state.rivals_since.get_or_insert_with(Instant::now);
            }
        });
    }

    /// Notes a grant to the head, after a wait or at once. With `allows_others`, those behind it may ask together.
    pub(crate) fn is_granted(&self, after_wait: bool, allows_others: bool) {
        let line = &self.place.member.line;
        line.answers.held();
        line.change(|state| match allows_others {
            true => state.opening.granted(after_wait),
            false => state.opening.close(),
        });
    }

    /// Leaves the line as a head that asks the server, and passes `place` to the next head. Without another waiter,
    /// `place` is dropped.
    pub(crate) fn leave(self, place: H) {
        let mut state = self.place.member.line.state();
        let untaken = if state.waiters() > 1 { state.passed.replace(place) } else { Some(place) };
        // C19: after the state is unlocked.
        drop(state);
        drop(untaken);
    }

    /// Returns the number of the newest waiter.
    pub(crate) fn newest(&self) -> u64 {
        self.place.member.line.state().newest()
    }

    /// Takes the time for which holders outside of this line held the lock since the last hold of the line.
    pub(crate) fn take_rivals_time(&self) -> Duration {
        self.place.member.line.state().take_rivals_time()
    }

    /// Leaves the line as the holder of `hold`, which may pass it on. `until` returns the time until which the next head
    /// waits for that, by its number.
    pub(crate) fn holds(
        self,
        hold: &Arc<Hold>,
        until: impl FnOnce(Option<u64>) -> Instant,
    ) -> LineHolder<H> {
        let (member, number) = (self.place.member.clone(), self.place.number);
        member.line.answers.held();
        let (id, untaken) = member.line.change(|state| {
            let untaken = state.leave(number, true);
            let id = state.draw();
            let until = until(state.first());
            state.holder = Some(Holder { id, hold: hold.clone(), until });
            (id, untaken)
        });
        drop(untaken);
        LineHolder { member, id }
    }
}

/// The holder of the lock in this line. The head goes on to the server once this is dropped.
#[derive(Debug)]
pub(crate) struct LineHolder<H> {
    member: Arc<Member<H>>,
    id: u64,
}

impl<H> LineHolder<H> {
    /// Returns the number of waiters behind this one.
    pub(crate) fn waiters(&self) -> usize {
        let state = self.member.line.state();
        if state.takes_nothing() { 0 } else { state.waiters() }
    }

    /// Returns the number of the next waiter.
    pub(crate) fn next(&self) -> Option<u64> {
        self.member.line.state().first()
    }

    /// Returns the number of the newest waiter.
    pub(crate) fn newest(&self) -> u64 {
        self.member.line.state().newest()
    }

    /// Passes a hold to the head; returns it if nobody waits.
    pub(crate) fn pass(self, hold: H) -> Result<(), H> {
        let mut state = self.member.line.state();
        if state.takes_nothing() || state.waiters() == 0 {
            return Err(hold);
        }
        state.passed = Some(hold);
        Ok(())
    }
}

impl<H> Drop for LineHolder<H> {
    fn drop(&mut self) {
        let line = &self.member.line;
        let mut state = line.state();
        let ended = state.holder.take_if(|holder| holder.id == self.id);
        if ended.is_some() && state.passed.is_none() {
            state.rivals_since = Some(Instant::now());
        }
        drop(state);
        line.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
