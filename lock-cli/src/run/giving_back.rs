//! Releases locks after a command has ended, and reports those that stay.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::core::{Clock, Release, SystemClock};
use leasehold::{LockError, LockGuard};

use crate::exit::Failure;
use crate::terminal;

/// A lock that could not be released.
pub(crate) struct Unreleased {
    error: LockError,
    store: String,
    /// The store has ended the hold by then.
    until: Instant,
    is_told: bool,
}

impl Unreleased {
    /// Returns true if the server refused, so that nobody tries again.
    pub(crate) fn is_refused(&self) -> bool {
        !self.error.is_transient()
    }

    /// Reports it, unless that was done.
    pub(crate) fn tell(&mut self) {
        if !std::mem::replace(&mut self.is_told, true) {
            terminal::error(&self.text());
        }
    }

    /// Returns a text with the lock, the store, the reason and the time left.
    pub(crate) fn text(&self) -> String {
        let left = self.until.saturating_duration_since(Instant::now()).as_secs_f64().ceil();
        let left = humantime::format_duration(Duration::from_secs_f64(left));
        let (error, store) = (&self.error, &self.store);
        let (keeps, remedy) = match self.is_refused() {
            true => ("keeps", "; `leasehold doctor` reports missing rights"),
            false => ("may keep", ""),
        };
        format!("{error}: {store} {keeps} the lock for up to {left}{remedy}")
    }
}

/// Releases all locks at the same time. A loss that is found now is a failure. A release that the server refuses is
/// reported at once.
pub(crate) async fn all(
    guards: Vec<LockGuard>,
    store: &str,
) -> (Result<(), Failure>, Vec<Unreleased>) {
    let releases = join_all(guards.into_iter().map(|guard| give_back(guard, store))).await;
    let (mut released, mut unreleased) = (Ok(()), Vec::new());
    for release in releases {
        match release {
            Ok(stays) => unreleased.extend(stays),
            Err(lost) => released = released.and(Err(lost)),
        }
    }
    unreleased.iter_mut().filter(|lock| lock.is_refused()).for_each(Unreleased::tell);
    (released, unreleased)
}

async fn give_back(guard: LockGuard, store: &str) -> Result<Option<Unreleased>, Failure> {
    let (name, left, deadline) = (guard.name().clone(), guard.remaining(), guard.deadline());
    let (was_held, released) = (!left.is_zero(), guard.release_confirmed().await);
    match released {
        Ok(Release::Released) if was_held => Ok(None),
        // Once the lease has expired, "not held" may be a normal end.
        Ok(Release::NotHeld) if was_held && SystemClock.now().has_reached(deadline) => Ok(None),
        Err(error) if was_held => {
            // The store keeps it a little longer than we believe, by the drift of the clocks.
            let until = Instant::now() + left.mul_f64(1.02);
            Ok(Some(Unreleased { error, store: store.to_owned(), until, is_told: false }))
        }
        _ => Err(Failure::lost(&name, "it was over when the command ended")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use leasehold::core::MemoryBackend;
    use leasehold::{ClientOptions, LockClient, LockRequest, OnceOutcome};
    use lock_testkit::{Fault, Faulty, Operation};

    use super::*;

    /// C47: a host was suspended, and no task has run since.
    #[tokio::test]
    async fn c47_a_hold_that_was_lost_by_its_own_clock_is_reported() {
        let locks = LockClient::new(MemoryBackend::new());
        let once = locks.once("a").at_least(Duration::from_secs(3600));
        let once = once.at_most(Duration::from_millis(10)).ttl(Duration::from_millis(50));
        let begun = once.begin().await.expect("an answer");
        let OnceOutcome::Ran(guard) = begun else { panic!("nobody ran: {begun:?}") };
        std::thread::sleep(Duration::from_millis(200));
        assert!(!guard.is_held());
        let (released, _) = all(vec![guard], "memory:").await;
        assert!(released.is_err(), "the loss is not told");
    }

    /// C47: the try whose answer was lost has released the lock, and the next try comes after the end of the lease.
    #[tokio::test]
    async fn c47_a_release_that_outlasts_its_lease_is_no_loss() {
        let faulty = Faulty::new(Arc::new(MemoryBackend::new()));
        let options = ClientOptions::new().request_timeout(Duration::from_secs(8));
        let locks = LockClient::with_options(faulty.clone(), options);
        let request = LockRequest::new("a").ttl(Duration::from_secs(3));
        let guard = locks.acquire(request).await.expect("a free lock");
        // A try has half of the request time-out, and ends after the lease.
        faulty.once(Operation::Release, Fault::SilenceAfter);
        let (released, unreleased) = all(vec![guard], "memory:").await;
        assert!(released.is_ok() && unreleased.is_empty(), "a loss is told");
        assert!(faulty.calls(Operation::Release) > 1);
    }
}
