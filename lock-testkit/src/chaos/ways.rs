//! The ways to acquire a lock.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{Kind, LockError, LockGuard, LockRequest, MultiRequest, OnceOutcome, Wait};
use tokio::time::timeout;

use super::clock::{SECOND, now};
use super::note::{Event, Number};
use super::rng::Rng;
use super::worker::{ELECTION, ONCE, PERMITS, REGISTERS, REQUEST_TIMEOUT, SHARED, Worker};

/// Number of permits of [`PERMITS`].
const OF: u16 = 3;

/// Time for which a run is recorded: far longer than its occurrence.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Longest wait.
const PATIENCE: Duration = Duration::from_secs(4);

impl Worker {
    /// One turn, in a random way.
    pub(super) async fn turn(&self, rng: &mut Rng) {
        match rng.below(12) {
            _ if self.is_reckless => self.take_register(rng).await,
            0..=4 => self.take_register(rng).await,
            5 => self.take(SHARED, LockRequest::new(SHARED), rng).await,
            6 => self.take(SHARED, LockRequest::new(SHARED).shared(), rng).await,
            7 => {
                let request = LockRequest::new(PERMITS).permits(1 + rng.below(2) as u16, OF);
                self.take(PERMITS, request, rng).await;
            }
            8 => self.take_several(rng).await,
            9 => self.lead(rng).await,
            10 => self.run_once(rng).await,
            _ => self.give_up(rng).await,
        }
    }

    async fn take_register(&self, rng: &mut Rng) {
        let name = *rng.pick(&REGISTERS);
        self.take(name, LockRequest::new(name), rng).await;
    }

    async fn take(&self, name: &str, request: LockRequest, rng: &mut Rng) {
        let (wait, bound) = patience(rng);
        let request = request.ttl(self.some_ttl(rng)).wait(wait);
        let call = self.called(name, "acquire", bound);
        match self.locks.acquire(request).await {
            Ok(guard) => self.hold(call, guard, rng).await,
            Err(error) => self.failed(call, &error),
        }
    }

    /// Drops an acquisition at a random moment.
    async fn give_up(&self, rng: &mut Rng) {
        let name = *rng.pick(&REGISTERS);
        let call = self.called(name, "acquire", Duration::ZERO);
        let request = LockRequest::new(name).ttl(self.some_ttl(rng)).wait(Wait::Forever);
        let patience = rng.span(Duration::ZERO, Duration::from_millis(600));
        match timeout(patience, self.locks.acquire(request)).await {
            Ok(Ok(guard)) => self.hold(call, guard, rng).await,
            Ok(Err(error)) => self.failed(call, &error),
            Err(_) => self.journal.note(Event::Dropped { call }),
        }
    }

    async fn take_several(&self, rng: &mut Rng) {
        let (wait, bound) = patience(rng);
        let names = [REGISTERS[0], REGISTERS[1], PERMITS];
        let names = &names[..2 + rng.below(2) as usize];
        let calls: Vec<_> = names.iter().map(|name| self.called(name, "several", bound)).collect();
        let request = MultiRequest::new(names).ttl(self.some_ttl(rng)).wait(wait);
        let multi = match self.locks.acquire_all(request).await {
            Ok(multi) => multi,
            Err(error) => return calls.iter().for_each(|call| self.failed(*call, &error)),
        };
        // The guard has its locks in the order of their bytes.
        let call_of = |guard: &LockGuard| {
            let place = names.iter().position(|name| *name == guard.name().as_str());
            calls[place.expect("a lock that was asked for")]
        };
        for guard in multi.guards() {
            self.granted(call_of(guard), guard);
        }
        let span = rng.span(Duration::ZERO, self.ttl);
        let dwell =
            join_all(multi.guards().iter().map(|held| self.dwell(call_of(held), held, span)));
        tokio::select! { _ = multi.lost() => {}, _ = dwell => {} }
        calls.iter().for_each(|call| self.ending(*call, "release"));
        let released = multi.release().await;
        calls.iter().for_each(|call| self.ended(*call, word(&released), released.is_ok()));
    }

    async fn lead(&self, rng: &mut Rng) {
        let (wait, bound) = patience(rng);
        let call = self.called(ELECTION, "campaign", bound);
        let election = self.locks.election(ELECTION).wait(wait).ttl(self.some_ttl(rng));
        match election.campaign().await {
            Ok(leadership) => self.hold(call, leadership.into_guard(), rng).await,
            Err(error) => self.failed(call, &error),
        }
    }

    /// Runs an occurrence of two seconds, which the first worker runs.
    async fn run_once(&self, rng: &mut Rng) {
        let call = self.called(ONCE, "once", Duration::ZERO);
        let (occurrence, span) = (now() / (2 * SECOND), rng.span(Duration::ZERO, self.ttl));
        let mut once = self.locks.once(ONCE).ttl(self.some_ttl(rng));
        if rng.one_in(2) {
            once = once.at_least(rng.span(Duration::from_millis(10), self.ttl));
        }
        let is_recorded = rng.one_in(2);
        if is_recorded {
            once = once.occurrence(occurrence.to_string()).remember(REMEMBERED);
        }
        let ran = once.run(async |held| {
            self.granted(call, held);
            self.dwell(call, held, span).await;
            self.ending(call, "once");
        });
        match ran.await {
            Ok(OnceOutcome::Ran(finished)) => {
                let lasted = finished.hold.is_ok();
                self.ended(call, word(&finished.hold), lasted);
                let (occurrence, is_recorded) = (occurrence.to_string(), is_recorded && lasted);
                self.journal.note(Event::Ran { call, occurrence, is_recorded });
            }
            Ok(OnceOutcome::Skipped(_)) => self.answered(call, "busy", None),
            Ok(OnceOutcome::Done(_)) => self.answered(call, "done", None),
            Err(error) => self.failed(call, &error),
        }
    }

    /// Notes a call for a lock that must return within `bound`; zero for no bound. Returns its number.
    pub(super) fn called(&self, name: &str, what: &str, bound: Duration) -> u64 {
        let (call, bound) = (self.journal.number(), bound.as_nanos() as u64);
        let (name, what) = (name.to_owned(), what.to_owned());
        self.journal.note(Event::Call { call, name, what, bound });
        call
    }

    pub(super) fn granted(&self, call: u64, guard: &LockGuard) {
        let kind = match guard.kind() {
            Kind::Exclusive => "exclusive",
            Kind::Shared => "shared",
            _ => "permits",
        };
        let (kind, token) = (kind.to_owned(), guard.token().get());
        self.journal.note(Event::Granted { call, kind, token, slots: guard.slots().to_vec() });
    }

    pub(super) fn failed(&self, call: u64, error: &LockError) {
        let why = match error {
            LockError::NotAcquired { .. } => "busy",
            LockError::Timeout { .. } => "timeout",
            LockError::Backend { .. } => "backend",
            LockError::Lost { .. } => "lost",
            _ => "other",
        };
        self.answered(call, why, (why == "other").then(|| error.to_string()));
    }

    /// Notes an answer without a hold.
    fn answered(&self, call: Number, why: &str, error: Option<String>) {
        self.journal.note(Event::Failed { call, why: why.to_owned(), error });
    }

    pub(super) fn some_ttl(&self, rng: &mut Rng) -> Duration {
        self.ttl * (1 + rng.below(3) as u32)
    }
}

/// Draws a wait, and returns it with the time within which the call must return.
fn patience(rng: &mut Rng) -> (Wait, Duration) {
    if rng.one_in(2) {
        return (Wait::Never, REQUEST_TIMEOUT);
    }
    let span = rng.span(Duration::from_millis(20), PATIENCE);
    (Wait::AtMost(span), span)
}

/// Returns a word for the end of a hold.
pub(super) fn word<T>(ended: &Result<T, LockError>) -> &'static str {
    match ended {
        Ok(_) => "ok",
        Err(LockError::Lost { .. }) => "lost",
        Err(LockError::Unrecorded { .. }) => "unrecorded",
        Err(_) => "unknown",
    }
}
