//! Work under a lock, and the ways to give it up.

use std::future::pending;
use std::time::Duration;

use futures_util::TryFutureExt;
use lock_core::backend::Release;
use lock_core::{Clock, FenceError, Kind, Lease, LockGuard, LostReason, Outcome, SystemClock};
use tokio::time::{Instant, sleep};

use super::clock::{MILLI, now};
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
        self.journal.note(format_args!("lost {call} {reason:?} {late}"));
    }

    async fn use_it(&self, call: u64, guard: &LockGuard, rng: &mut Rng) {
        let span = match rng.below(12) {
            // Longer than any TTL, so that it must be renewed.
            0 => self.ttl * 4,
            1..=3 => rng.span(Duration::ZERO, self.ttl),
            _ => rng.span(Duration::ZERO, Duration::from_millis(60)),
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
        self.operate(name, "advance", token.get(), 0, register.advance(token).map_ok(|()| 0))
            .await?;
        let seen = self.operate(name, "read", token.get(), 0, register.read(token)).await?;
        self.dwell(call, guard, span).await;
        self.operate(
            name,
            "write",
            token.get(),
            seen + 1,
            register.write(token, seen + 1).map_ok(|()| 0),
        )
        .await?;
        self.dwell(call, guard, span / 4).await;
        Some(())
    }

    /// Carries out an operation on a register. If it fails, the worker does no more under the lock.
    async fn operate(
        &self,
        name: &str,
        what: &str,
        token: u64,
        value: u64,
        operation: impl Future<Output = Result<u64, FenceError>>,
    ) -> Option<u64> {
        let number = self.journal.number();
        self.journal.note(format_args!("operation {number} {name} {what} {token} {value}"));
        let outcome = operation.await;
        let word = match &outcome {
            Ok(_) => "ok",
            Err(FenceError::Stale { .. }) => "stale",
            Err(FenceError::Backend(error)) if error.outcome() == Outcome::NotApplied => "never",
            // The work may have been done, or may still be done.
            Err(_) => "unknown",
        };
        let value = outcome.as_ref().copied().unwrap_or(0);
        self.journal.note(format_args!("returned {number} {word} {value}"));
        outcome.ok()
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
                self.journal.note(format_args!("held {call} {moment}"));
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
                self.ended(call, "dropped");
            }
            5 => {
                let extended = word(&guard.extend(self.ttl * 2).await);
                self.journal.note(format_args!("extended {call} {extended}"));
                self.dwell(call, &guard, self.ttl / 4).await;
                self.release(call, guard).await;
            }
            _ => self.hand_on(call, guard, rng).await,
        }
    }

    fn ending(&self, call: u64, how: &str) {
        self.journal.note(format_args!("ending {call} {how}"));
    }

    fn ended(&self, call: u64, outcome: &str) {
        self.journal.note(format_args!("ended {call} {outcome}"));
    }

    async fn release(&self, call: u64, guard: LockGuard) {
        self.ending(call, "release");
        let outcome = word(&guard.release().await);
        self.ended(call, outcome);
    }

    async fn release_confirmed(&self, call: u64, guard: LockGuard) {
        self.ending(call, "release-confirmed");
        let outcome = match guard.release_confirmed().await {
            Ok(Release::Released) => "confirmed",
            Ok(Release::NotHeld) => "not-held",
            Err(_) => "unknown",
        };
        self.ended(call, outcome);
    }

    /// Hands the hold on as text, as to another process.
    async fn hand_on(&self, call: u64, guard: LockGuard, rng: &mut Rng) {
        let name = guard.name().to_string();
        self.ending(call, "detach");
        let lease = match guard.detach() {
            Ok(lease) => lease.export(),
            Err(error) => return self.ended(call, word::<()>(&Err(error))),
        };
        self.ended(call, "detached");
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
