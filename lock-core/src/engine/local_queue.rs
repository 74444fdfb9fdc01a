//! One place on the server for many waiters of one process.

mod answers;

use std::pin::pin;
use std::sync::Arc;

use foldhash::HashMap;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

pub(crate) use self::answers::{LineAnswers, Outage};
use crate::model::LockName;
use crate::sync::{Mutex, MutexGuard, locked};

/// The line of this client's waiters for each name: only its head asks the server (C26).
///
/// Without it, a thousand tasks that want one lock would be a thousand waiters on the server. A holder that came out
/// of the line may pass its hold to the head without a request:
///
/// ```text
///                         it passes
///   in line ──▶ head ───────────────────▶ holds
///                │  waits for a holder       ▲
///                │  of the line              │ granted
///                └───────────────────▶ asks the server
///                 there is none, it ended
///                 otherwise, or it takes long
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

#[derive(Debug)]
struct Line<H> {
    /// The permit of the head.
    turn: Arc<Semaphore>,
    state: Mutex<LineState<H>>,
    /// Signals the head that a hold is passed, or that a holder ended otherwise.
    changed: Notify,
    answers: Arc<LineAnswers>,
}

#[derive(Debug)]
struct LineState<H> {
    waiters: usize,
    /// The holder that may pass its hold on, and the time until which the head waits for that.
    holder: Option<(u64, Instant)>,
    /// Numbers the holders.
    drawn: u64,
    /// True if the head has gone on to the server: it takes no passed hold.
    head_asks_server: bool,
    passed: Option<H>,
}

impl<H> LineState<H> {
    /// Returns true if the head or the next head asks the server, as a head does that waited for its holder for long.
    fn takes_nothing(&self) -> bool {
        let waits = self.holder.is_some_and(|(_, until)| until > Instant::now());
        !waits || self.head_asks_server || self.passed.is_some()
    }
}

impl<H> LocalQueue<H> {
    /// Waits, first come first served, to be the head of the line for `name`. `None` if the head is not polled: then
    /// the caller has left the line.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the line.
    pub(crate) async fn turn(&self, name: &LockName) -> Option<Turn<H>> {
        let place = WaiterPlace::new(self.join(name));
        let line = place.member.line.clone();
        let mut permit = pin!(line.turn.clone().acquire_owned());
        loop {
            if let Ok(permit) = timeout_at(line.answers.head_lives_until(), &mut permit).await {
                line.answers.head_changes();
                // The semaphore is never closed, so a permit always comes.
                return Some(Turn { _permit: permit.ok(), place });
            }
            // L1: a future that was polled once and is kept may be the head for ever.
            if line.answers.head_lives_until() <= Instant::now() {
                line.give_back();
                return None;
            }
        }
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

    /// Returns true if the line for `name` awaits an answer of the server, and none has come since `since`.
    pub(crate) fn is_silent(&self, name: &LockName, since: Instant) -> bool {
        let lines = locked(&self.lines);
        lines.get(name).is_some_and(|entry| entry.line.answers.is_silent_since(since))
    }

    fn join(&self, name: &LockName) -> Member<H> {
        let mut lines = locked(&self.lines);
        let entry = lines.entry(name.clone()).or_insert_with(Entry::new);
        entry.members += 1;
        Member { lines: self.lines.clone(), name: name.clone(), line: entry.line.clone() }
    }
}

impl<H> Default for LocalQueue<H> {
    fn default() -> Self {
        Self { lines: Arc::default() }
    }
}

impl<H> Entry<H> {
    fn new() -> Self {
        let state =
            LineState { waiters: 0, holder: None, drawn: 0, head_asks_server: false, passed: None };
        let (turn, state) = (Arc::new(Semaphore::new(1)), Mutex::new(state));
        Self {
            line: Arc::new(Line {
                turn,
                state,
                changed: Notify::new(),
                answers: Arc::new(LineAnswers::new()),
            }),
            members: 0,
        }
    }
}

/// Next step of the head of a line.
enum NextStep<H> {
    Take(H),
    Wait(Instant),
    AskServer,
}

impl<H> Line<H> {
    fn next_step(&self) -> NextStep<H> {
        let mut state = self.state();
        if let Some(passed) = state.passed.take() {
            state.head_asks_server = true;
            return NextStep::Take(passed);
        }
        match state.holder {
            Some((_, until)) if until > Instant::now() => NextStep::Wait(until),
            _ => {
                state.head_asks_server = true;
                NextStep::AskServer
            }
        }
    }

    /// Gives back a passed hold or place that the head has not taken, after the state is unlocked.
    fn give_back(&self) {
        let untaken = self.state().passed.take();
        drop(untaken);
    }

    fn state(&self) -> MutexGuard<'_, LineState<H>> {
        locked(&self.state)
    }
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

/// A waiter's place in line.
#[derive(Debug)]
struct WaiterPlace<H> {
    member: Arc<Member<H>>,
}

impl<H> WaiterPlace<H> {
    fn new(member: Member<H>) -> Self {
        member.line.state().waiters += 1;
        Self { member: Arc::new(member) }
    }
}

impl<H> Drop for WaiterPlace<H> {
    fn drop(&mut self) {
        let mut state = self.member.line.state();
        state.waiters -= 1;
        // Gives back an untaken hold or place, after the state is unlocked.
        let untaken = if state.waiters == 0 { state.passed.take() } else { None };
        drop(state);
        drop(untaken);
    }
}

/// The head of a line. The next in line moves up when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<H> {
    // The permit is dropped before the place, so that the next head finds this one gone.
    _permit: Option<OwnedSemaphorePermit>,
    place: WaiterPlace<H>,
}

impl<H> Turn<H> {
    /// Waits for the holder of this line to pass its hold on; `None` if the head must ask the server.
    ///
    /// # Cancel safety
    /// If the future is dropped, a passed hold stays for the next head.
    pub(crate) async fn passed(&self) -> Option<H> {
        let line = &self.place.member.line;
        loop {
            // Listens before it looks, so that no passed hold is missed.
            let mut changed = pin!(line.changed.notified());
            changed.as_mut().enable();
            match line.next_step() {
                NextStep::Take(hold) => return Some(hold),
                NextStep::AskServer => return None,
                NextStep::Wait(until) => drop(timeout_at(until, changed).await),
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

    /// Returns the record of the server's answers to this line.
    pub(crate) fn answers(&self) -> Arc<LineAnswers> {
        self.place.member.line.answers.clone()
    }

    /// Leaves the line as a head that asks the server, and passes `place` to the next head. Without another waiter,
    /// `place` is dropped.
    pub(crate) fn leave(self, place: H) {
        let mut state = self.place.member.line.state();
        let untaken = if state.waiters > 1 { state.passed.replace(place) } else { Some(place) };
        // C19: after the state is unlocked.
        drop(state);
        drop(untaken);
    }

    /// Leaves the line as a holder that may pass its hold on. The next head then waits for that until `until`.
    pub(crate) fn holds(self, until: Instant) -> LineHolder<H> {
        let member = self.place.member.clone();
        let mut state = member.line.state();
        state.drawn += 1;
        let id = state.drawn;
        state.holder = Some((id, until));
        drop(state);
        LineHolder { member, id }
    }
}

impl<H> Drop for Turn<H> {
    fn drop(&mut self) {
        let line = &self.place.member.line;
        line.answers.head_changes();
        line.state().head_asks_server = false;
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
        if state.takes_nothing() { 0 } else { state.waiters }
    }

    /// Passes a hold to the head; returns it if nobody waits.
    pub(crate) fn pass(self, hold: H) -> Result<(), H> {
        let mut state = self.member.line.state();
        if state.takes_nothing() || state.waiters == 0 {
            return Err(hold);
        }
        state.passed = Some(hold);
        Ok(())
    }
}

impl<H> Drop for LineHolder<H> {
    fn drop(&mut self) {
        let line = &self.member.line;
        line.state().holder.take_if(|(id, _)| *id == self.id);
        line.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
