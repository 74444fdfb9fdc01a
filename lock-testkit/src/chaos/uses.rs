//! Work under a lock, and the ways to give it up.

use std::future::pending;
use std::time::Duration;

use futures_util::TryFutureExt;
use lock_core::backend::Release;
use lock_core::{Clock, FenceError, Kind, Lease, LockGuard, LostReason, Outcome, SystemClock};
use tokio::time::{Instant, sleep};

use super::clock::{MILLI, now};
use super::linear::{Act, OperationOutcome};
use super::note::{Event, Number};
use super::register::Register;
use super::rng::Rng;
use super::ways::word;
use super::worker::{REQUEST_TIMEOUT, Worker};

/// Interval at which a holder checks its hold.
const LOOK: Duration = Duration::from_millis(10);

impl Worker {
    /// Uses a granted lock, and gives it up.
    pub(super) async fn hold(&self, call: u64, guard: LockGuard, rng: &mut Rng) {
        self.granted(call, &guard);
        let is_stubborn = self.is_reckless || rng.one_in(3);
        let watch = async {
            let reason = guard.lost().await;
            self.note_loss(call, &guard, reason);
            if is_stubborn {
                pending::<()>().await;
            }
        };
        tokio::select! { () = watch => {}, () = self.use_it(call, &guard, rng) => {} }
        self.end(call, guard, rng).await;
    }

    fn note_loss(&self, call: u64, guard: &LockGuard, reason: LostReason) {
        // C9: only an expiry can be late.
        let late = match reason {
            LostReason::Expired => SystemClock.now().since(guard.deadline()).as_nanos(),
            _ => 0,
        };
        self.journal.note(Event::Lost { call, reason: format!("{reason:?}"), late: late as u64 });
    }

    async fn use_it(&self, call: u64, guard: &LockGuard, rng: &mut Rng) {
        let span = match rng.below(400) {
            // Longer than any TTL, so that it must be renewed.
            0 => self.ttl * 4,
            1..=4 => rng.span(Duration::ZERO, self.ttl),
            _ => rng.span(Duration::ZERO, Duration::from_millis(10)),
        };
        match self.registers.get(guard.name().as_str()) {
            Some(register) if guard.kind() == Kind::Exclusive => {
                // The outcome is in the history.
                let _ = self.increment(call, guard, &**register, span).await;
            }
            _ => self.dwell(call, guard, span).await,
        }
    }

    /// C25: advances the fence, reads, and writes the number plus one.
    async fn increment(
        &self,
        call: u64,
        guard: &LockGuard,
        register: &dyn Register,
        span: Duration,
    ) -> Option<()> {
        let (name, token) = (guard.name().as_str(), guard.token());
        let number = token.get();
        self.operate(name, Act::Advance(number), register.advance(token).map_ok(|()| 0)).await?;
        let next = self.operate(name, Act::Read(number), register.read(token)).await? + 1;
        self.dwell(call, guard, span).await;
        let write = register.write(token, next).map_ok(|()| 0);
        self.operate(name, Act::Write(number, next), write).await?;
        self.dwell(call, guard, span / 4).await;
        Some(())
    }

    /// Carries out an operation on a register. If it fails, the worker does no more under the lock.
    async fn operate(
        &self,
        register: &str,
        act: Act,
        carried_out: impl Future<Output = Result<u64, FenceError>>,
    ) -> Option<u64> {
        let (operation, register) = (self.journal.number(), register.to_owned());
        self.journal.note(Event::Operation { operation, register, act });
        let answer = carried_out.await;
        let outcome = match &answer {
            Ok(value) => Some(act.done(*value)),
            Err(FenceError::Stale { .. }) => Some(OperationOutcome::Stale),
            Err(FenceError::Backend(error)) if error.outcome() == Outcome::NotApplied => {
                Some(OperationOutcome::Never)
            }
            // The work may have been done, or may still be done.
            Err(_) => None,
        };
        self.journal.note(Event::Returned { operation, outcome });
        answer.ok()
    }

    /// Holds for a span, and notes the last moment at which the holder believed.
    pub(super) async fn dwell(&self, call: u64, guard: &LockGuard, span: Duration) {
        let (end, mut noted) = (Instant::now() + span, 0);
        loop {
            // Read before the check: the holder believes at least until then, since a lost hold never comes back
            // (C10).
            let moment = now();
            let (is_held, is_over) = (guard.is_held(), Instant::now() >= end);
            if is_held && (is_over || moment - noted > 40 * MILLI) {
                self.journal.note(Event::Held { call, moment });
                noted = moment;
            }
            if is_over {
                return;
            }
            sleep(LOOK.min(end.saturating_duration_since(Instant::now()))).await;
        }
    }

    async fn end(&self, call: u64, guard: LockGuard, rng: &mut Rng) {
        match rng.below(7) {
            0..=2 => self.release(call, guard).await,
            3 => self.release_confirmed(call, guard).await,
            4 => {
                self.ending(call, "drop");
                drop(guard);
                self.ended(call, "dropped", false);
            }
            5 => {
                let outcome = word(&guard.extend(self.ttl * 2).await).to_owned();
                self.journal.note(Event::Extended { call, outcome });
                self.dwell(call, &guard, self.ttl / 4).await;
                self.release(call, guard).await;
            }
            _ => self.hand_on(call, guard, rng).await,
        }
    }

    pub(super) fn ending(&self, call: Number, how: &str) {
        self.journal.note(Event::Ending { call, how: how.to_owned() });
    }

    /// Notes the end of a hold, which lasted until its end began if `lasted` is true (C47).
    pub(super) fn ended(&self, call: Number, outcome: &str, lasted: bool) {
        self.journal.note(Event::Ended { call, outcome: outcome.to_owned(), lasted });
    }

    async fn release(&self, call: u64, guard: LockGuard) {
        self.ending(call, "release");
        let released = guard.release().await;
        self.ended(call, word(&released), released.is_ok());
    }

    async fn release_confirmed(&self, call: u64, guard: LockGuard) {
        self.ending(call, "release-confirmed");
        let outcome = match guard.release_confirmed().await {
            Ok(Release::Released) => "confirmed",
            Ok(Release::NotHeld) => "not-held",
            Err(_) => "unknown",
        };
        self.ended(call, outcome, false);
    }

    /// Hands the hold on as text, as to another process.
    async fn hand_on(&self, call: u64, guard: LockGuard, rng: &mut Rng) {
        let name = guard.name().to_string();
        self.ending(call, "detach");
        let lease = match guard.detach() {
            Ok(lease) => lease.export(),
            Err(error) => return self.ended(call, word::<()>(&Err(error)), false),
        };
        self.ended(call, "detached", true);
        sleep(rng.span(Duration::ZERO, self.ttl / 4)).await;
        let call = self.called(&name, "attach", REQUEST_TIMEOUT);
        let lease = Lease::import(&lease).expect("its own text");
        match self.locks.attach(lease).await {
            Ok(guard) => {
                self.granted(call, &guard);
                self.dwell(call, &guard, Duration::from_millis(20)).await;
                self.release(call, guard).await;
            }
            Err(error) => self.failed(call, &error),
        }
    }
}
