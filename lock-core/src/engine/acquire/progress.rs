//! Progress of an acquisition: its next look, and its end.

use std::time::Duration;

use tokio::time::Instant;

use super::local_queue::Outage;
use super::server_place::Busy;
use crate::backend::FALLBACK_POLL;
use crate::engine::client::{jittered, pause_after};
use crate::model::{
    BackendError, Claim, Contention, Kind, LockError, LockName, Moment, Outcome, ServerTime, Ttl,
    Wait, Wakeup, random,
};

/// First pause of a polling waiter.
const FIRST_POLL: Duration = Duration::from_millis(1);

/// Longest pause of the first waiter behind a foreign client. Longer pauses would leave the lock to other foreign
/// clients, which ask all the time.
const FOREIGN_POLL: Duration = Duration::from_millis(100);

/// Each next waiter looks this much later at a lease that may expire without a message.
const STAGGER: Duration = Duration::from_millis(20);

/// Duration of a wait before it warns of a holder that may stay for ever.
const WARNS_AFTER: Duration = Duration::from_secs(1);

/// Number of request time-outs without an answer after which an endless wait ends.
pub(super) const OUTAGE_BORNE: u32 = 5;

/// Most doublings of a try within a wait, so that a connection that swallows requests is noticed.
const MOST_DOUBLINGS: u32 = 3;

/// Phase of an acquisition, by the last answer or silence of the server.
///
/// | phase | entered by | the next look | an endless wait | a bounded wait, at its end |
/// | --- | --- | --- | --- | --- |
/// | `Unanswered` | the start | at once | goes on | `Timeout` |
/// | `Busy` | "busy" | when woken, by poll, at the holder's expiry | goes on | `Timeout`; `NotAcquired` or `Conflict` without a wait |
/// | `Late` | a grant that came after its own deadline | after a growing pause | ends after five request time-outs, as `Backend` | `Timeout` |
/// | `Outage` | an error, or silence for a whole try | after a growing pause | ends after five request time-outs, as `Backend` | `Backend` |
///
/// A try that our own end cut short changes nothing: it does not show the state of the server (C48). The `Timeout` of
/// a wait without an answer has the contention that its line saw last. It has none, and is not busy, if the server is
/// silent to the line too.
#[derive(Debug)]
enum Phase {
    Unanswered,
    Busy(Instant),
    Late(Instant),
    Outage(Instant, BackendError),
}

/// One try: its end, and if a server had enough time to answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Try {
    pub(super) sent: Instant,
    pub(super) end: Instant,
    pub(super) is_whole: bool,
}

/// State of an acquisition in progress.
#[derive(Debug)]
pub(super) struct Progress {
    wait: Wait,
    request_timeout: Duration,
    started: Instant,
    phase: Phase,
    /// Number of consecutive times that it came to the present state.
    repeats: u32,
    /// Number of consecutive tries without any answer.
    silences: u32,
    /// Number of consecutive answers that the hold of another is over, and the lock still busy.
    overdue: u32,
    /// Last known state of the other clients.
    seen: Option<Contention>,
    /// True once the caller was warned that the holder may stay for ever.
    has_warned: bool,
    /// True once a long wait has looked at the holds of its own client.
    is_long: bool,
    /// The times at which the last answer was asked for, and was given on the server's clock.
    last_answer: Option<(Moment, ServerTime)>,
    /// True once a try may have left a place or a hold of the claim on the server.
    may_be_applied: bool,
}

impl Progress {
    pub(super) fn new(wait: Wait, request_timeout: Duration) -> Self {
        Self {
            wait,
            request_timeout,
            started: Instant::now(),
            phase: Phase::Unanswered,
            repeats: 0,
            silences: 0,
            overdue: 0,
            seen: None,
            has_warned: false,
            is_long: false,
            last_answer: None,
            may_be_applied: false,
        }
    }

    /// Takes over a claim that an earlier acquisition of its line may have left on the server.
    pub(super) fn with_place(self, may_be_applied: bool) -> Self {
        Self { may_be_applied, ..self }
    }

    /// Begins in an outage in which an earlier head of the line was. An endless wait bears only the rest of it.
    pub(super) fn in_outage(self, outage: Option<Outage>) -> Self {
        match outage {
            Some((since, error)) if self.wait == Wait::Forever => {
                Self { phase: Phase::Outage(since, error), ..self }
            }
            _ => self,
        }
    }

    /// Returns the start of the present outage, and its last error.
    pub(super) fn outage(&self) -> Option<Outage> {
        match &self.phase {
            Phase::Outage(since, error) => Some((*since, error.clone())),
            _ => None,
        }
    }

    /// Returns true if the server has answered "busy".
    pub(super) fn has_waited(&self) -> bool {
        self.seen.is_some()
    }

    /// Returns true if the last grant came too late.
    pub(super) fn is_late(&self) -> bool {
        matches!(self.phase, Phase::Late(_))
    }

    /// Returns true if the acquisition waits for a busy lock.
    pub(super) fn waits(&self) -> bool {
        self.wait.waits()
    }

    pub(super) fn last_answer(&self) -> Option<(Moment, ServerTime)> {
        self.last_answer
    }

    /// Returns the try of a request that was sent at `sent`. It lasts half a request time-out, so that a second try
    /// has time after a connection swallowed the first. Within a wait, each try after one without an answer lasts
    /// twice as long: a slow server answers in the end.
    pub(super) fn try_since(&self, sent: Instant) -> Try {
        let doublings = if self.waits() { self.silences.min(MOST_DOUBLINGS) } else { 0 };
        let whole = sent + self.request_timeout / 2 * (1 << doublings);
        match self.give_up_at() {
            // After a pause of the process a whole try is still due.
            Some(past) if past <= Instant::now() && self.wait == Wait::Forever => {
                Try { sent, end: whole, is_whole: true }
            }
            Some(end) if end < whole => Try { sent, end, is_whole: false },
            Some(_) | None => Try { sent, end: whole, is_whole: true },
        }
    }

    /// Notes that the server answered "busy", to this acquisition or to the one whose place it took.
    pub(super) fn busy(&mut self, busy: &Busy) {
        self.last_answer = busy.seen.at.map(|at| (busy.asked, at));
        self.may_be_applied |= self.waits();
        self.repeats = if matches!(self.phase, Phase::Busy(_)) { self.repeats + 1 } else { 0 };
        self.silences = 0;
        let is_overdue = busy.seen.ttl_left.is_some_and(|left| left < FIRST_POLL);
        self.overdue = if is_overdue { self.overdue + 1 } else { 0 };
        (self.phase, self.seen) = (Phase::Busy(busy.answered), Some(busy.seen.clone()));
    }

    /// Returns the duration of the wait if a warning is due: once, after a second, if the holder is a key that may
    /// stay for ever (C49), or another claim counts another number of permits than the kind that is `asked` for (C33).
    pub(super) fn warning_due(&mut self, asked: Kind) -> Option<Duration> {
        let waited = self.started.elapsed();
        let is_stuck = self
            .seen
            .as_ref()
            .is_some_and(|seen| seen.foreign_without_ttl || seen.disagrees(asked).is_some());
        let due = is_stuck && !self.has_warned && waited >= WARNS_AFTER;
        self.has_warned |= due;
        due.then_some(waited)
    }

    /// Returns the duration of the wait once, after a second: then it is time to look if the task may wait for
    /// itself (C43).
    pub(super) fn become_long(&mut self) -> Option<Duration> {
        let waited = self.started.elapsed();
        let becomes_long = !self.is_long && waited >= WARNS_AFTER;
        self.is_long |= becomes_long;
        becomes_long.then_some(waited)
    }

    /// Notes a grant that came after its own deadline. The next answer may be quicker, and finds the same grant.
    pub(super) fn granted_late(&mut self, of: Try) {
        self.may_be_applied = true;
        let (since, repeats) = self.trouble(of);
        (self.phase, self.repeats, self.seen) = (Phase::Late(since), repeats, None);
        self.silences = 0;
    }

    /// Notes a failure of the server, or of the connection to it.
    pub(super) fn failed(&mut self, of: Try, error: BackendError) {
        self.may_be_applied |= error.outcome() == Outcome::Unknown;
        let (since, repeats) = self.trouble(of);
        let earlier = match std::mem::replace(&mut self.phase, Phase::Unanswered) {
            Phase::Outage(_, earlier) => Some(earlier),
            Phase::Unanswered | Phase::Busy(_) | Phase::Late(_) => None,
        };
        self.phase = Phase::Outage(since, error.told_after(earlier));
        (self.repeats, self.silences) = (repeats, 0);
    }

    /// Notes that a try ended without an answer.
    pub(super) fn silent(&mut self, of: Try, backend: &'static str) {
        // C15: this includes a try that our own end cut short.
        self.may_be_applied = true;
        if of.is_whole {
            let silences = self.silences + 1;
            self.failed(of, BackendError::no_answer(backend, of.end - of.sent));
            self.silences = silences;
        }
    }

    /// Returns the start of the present trouble, and the number of failures in a row. Late grants and outages are the
    /// same trouble: only "busy" ends it.
    ///
    /// Trouble begins with the first request that failed, not with the last answer before. Between them lies a pause,
    /// of ours or of the whole process; the request itself took no longer than a try. A process that was stopped
    /// during a try knows nothing of the server, and begins anew.
    fn trouble(&self, of: Try) -> (Instant, u32) {
        let now = Instant::now();
        match self.phase {
            _ if now.saturating_duration_since(of.end) > self.request_timeout => (now, 0),
            Phase::Late(since) | Phase::Outage(since, _) => (since, self.repeats + 1),
            Phase::Unanswered | Phase::Busy(_) => {
                (of.sent.max(now.checked_sub(self.request_timeout / 2).unwrap_or(now)), 0)
            }
        }
    }

    /// Returns the time at which an acquisition without better news ends; `None` if it has no bound yet.
    fn give_up_at(&self) -> Option<Instant> {
        match (self.wait.span(), &self.phase) {
            (Some(Duration::ZERO), _) => Some(self.started + self.request_timeout),
            (Some(span), _) => Some(self.started + span.min(Ttl::MAX.as_duration() * 365)),
            (None, Phase::Late(since) | Phase::Outage(since, _)) => {
                Some(*since + self.request_timeout * OUTAGE_BORNE)
            }
            (None, Phase::Unanswered | Phase::Busy(_)) => None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        let answered = matches!(self.phase, Phase::Busy(_));
        let ended = self.give_up_at().is_some_and(|end| Instant::now() >= end);
        ended || (answered && !self.waits())
    }

    /// Returns true if the acquisition is over after a pause. If its end is long past, the process was paused, and an
    /// endless wait gets one more try.
    pub(super) fn is_over_after_pause(&self) -> bool {
        let overslept = self.give_up_at().is_some_and(|end| end.elapsed() >= self.request_timeout);
        self.is_over() && !(overslept && self.wait == Wait::Forever)
    }

    /// Returns the pause before the next look at the server.
    pub(super) fn pause(&self, wakeup: Wakeup) -> Duration {
        let pause = match (&self.phase, wakeup) {
            (Phase::Unanswered, _) => Duration::ZERO,
            (Phase::Late(_) | Phase::Outage(..), _) => pause_after(self.repeats),
            // C28: the poll is late within its bound, since most waiters are woken earlier.
            (Phase::Busy(_), Wakeup::Push) if self.is_next_after_foreign() => {
                FOREIGN_POLL.mul_f64(random::within(0.2..1.0))
            }
            (Phase::Busy(_), Wakeup::Push) => FALLBACK_POLL.mul_f64(random::within(0.8..1.0)),
            (Phase::Busy(_), Wakeup::Poll(longest)) => self.poll_within(longest),
        };
        // A holder that died releases nothing: its lease expires without a message.
        let is_busy = matches!(self.phase, Phase::Busy(_));
        let seen = self.seen.as_ref().filter(|_| is_busy);
        let expiry = Ttl::kept(seen.and_then(|seen| seen.ttl_left).unwrap_or(pause));
        let left = self.give_up_at().map(|end| end.saturating_duration_since(Instant::now()));
        // A server may keep a hold for longer than it says.
        let after_expiry = FIRST_POLL.saturating_mul(1 << self.overdue.min(10));
        let due = pause.min(expiry + after_expiry + self.stagger()).saturating_sub(self.age());
        due.min(left.unwrap_or(due))
    }

    /// Returns true if this claim is the next one after a foreign client, which wakes nobody. A key without a TTL may
    /// stay for ever, and is looked at less often.
    fn is_next_after_foreign(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| {
            seen.is_foreign && !seen.foreign_without_ttl && seen.position == Some(0)
        })
    }

    /// Returns the time since the last answer, which the previous head may have received.
    fn age(&self) -> Duration {
        match self.phase {
            Phase::Busy(answered) => answered.elapsed(),
            _ => Duration::ZERO,
        }
    }

    /// Returns the pause of a poll. It grows up to `longest`.
    fn poll_within(&self, longest: Duration) -> Duration {
        jittered(FIRST_POLL.saturating_mul(1 << self.repeats.min(10)).min(longest))
    }

    /// Returns the delay with which this waiter looks at an expiry. The first in the queue is granted the lock, and
    /// the others would find it busy.
    fn stagger(&self) -> Duration {
        let ahead = self.seen.as_ref().and_then(|seen| seen.position).unwrap_or(0);
        STAGGER.saturating_mul(u32::try_from(ahead).unwrap_or(u32::MAX))
    }

    /// Returns the error of an acquisition that the server refused permanently.
    pub(super) fn refused(&self, name: &LockName, error: BackendError) -> LockError {
        of_backend(name, error, self.may_be_applied)
    }

    /// Returns the error of an acquisition that ends in this state (C14). Its line may have seen the lock.
    pub(super) fn into_error(
        self,
        claim: &Claim,
        backend: &'static str,
        seen_in_line: Option<Contention>,
    ) -> LockError {
        let name = claim.name.clone();
        match (self.phase, self.seen) {
            (Phase::Outage(_, error), _) => of_backend(&name, error, self.may_be_applied),
            (Phase::Late(_), _) if self.wait == Wait::Forever => {
                of_backend(&name, always_late(backend), self.may_be_applied)
            }
            (Phase::Busy(_), Some(contention)) if !self.wait.waits() => {
                match contention.other_number(claim.kind) {
                    // C33: the number is that of the present holders.
                    Some(held) => LockError::Conflict { name, asked: claim.kind.permits(), held },
                    None => LockError::NotAcquired { name, contention },
                }
            }
            (_, seen) => {
                let (waited, contention) = (self.started.elapsed(), seen.or(seen_in_line));
                LockError::Timeout { name, waited, contention }
            }
        }
    }
}

/// A failed try does not undo what an earlier try left on the server (C15).
fn of_backend(name: &LockName, error: BackendError, may_be_applied: bool) -> LockError {
    let error = if may_be_applied { error.of_unknown_outcome() } else { error };
    LockError::backend("acquire", Some(name), error)
}

fn always_late(backend: &'static str) -> BackendError {
    let context = "each grant came after its own deadline: choose a TTL longer than the server's answers take";
    BackendError::transient(backend, Outcome::NotApplied, context, "the answers are too slow")
}

#[cfg(test)]
mod tests;
