//! A hold that is renewed, and released when it is dropped.

mod ending;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Recording;
use crate::engine::{Acquired, Hold, JointHolder, LostSignal, Shared, while_held};
use crate::model::{
    BackendError, FencingToken, Kind, LockError, LockName, LostReason, Moment, Occurrence, Record,
    Ttl,
};

/// A lock that is held.
///
/// The client renews it at a third of its TTL for as long as the guard lives. **The hold can still be lost**: the
/// server may be unreachable for longer than the TTL, or lose its data, or the process may be paused. Therefore
///
/// - run the work through [`run`](Self::run), which drops it at the loss, or wait for [`lost`](Self::lost), or check
///   [`is_held`](Self::is_held) before each step;
/// - send the [`token`](Self::token) with every write, and let the resource refuse stale ones (see
///   [`Fence`](crate::Fence)): no check on this side can close the gap between the check and the write.
///
/// # Drop
/// Dropping the guard releases the lock **soon, not at once**. The drop never blocks, and works inside and outside a
/// runtime; the client's janitor sends the release. Await [`release`](Self::release) to know that the lock is
/// released.
///
/// **`let _ = locks.acquire("a").await?;` releases the lock at once**, since a `_` keeps nothing. Write
/// `let _held = …`, which lives to the end of the block.
#[must_use = "a guard that is not kept gives the lock back at once: bind it to a name, and not to `_`"]
pub struct LockGuard {
    shared: Arc<Shared>,
    hold: Arc<Hold>,
    /// The hold, which this guard alone gives back. `None` after its end, and while other guards share the hold.
    own: Option<Acquired>,
    /// Its part of a hold that the guards of a `Reentrance` share.
    joint: Option<(JointHolder, Arc<Acquired>)>,
}

impl LockGuard {
    pub(crate) fn new(shared: Arc<Shared>, acquired: Acquired) -> Self {
        let hold = Arc::clone(&acquired.hold);
        Self { shared, hold, own: Some(acquired), joint: None }
    }

    /// One of several guards of a hold.
    pub(crate) fn joint(shared: Arc<Shared>, by: JointHolder, acquired: Arc<Acquired>) -> Self {
        let (hold, joint) = (Arc::clone(&acquired.hold), Some((by, acquired)));
        Self { shared, hold, own: None, joint }
    }

    /// Asks for a longer TTL from now on, if `ttl` is longer (C43).
    pub(crate) fn ask_for(&self, ttl: Ttl) {
        self.hold.ask_for(ttl);
        self.shared.renewer.look_at(&self.hold);
    }

    /// Renews for no longer than `span` from now (C13).
    pub(crate) fn renew_for(&self, span: Duration) {
        self.hold.renew_for(span);
    }

    /// Returns the loss as an error, if the lock is lost.
    pub(crate) fn error_if_lost(&self) -> Result<(), LockError> {
        self.hold.error_if_lost()
    }

    /// The lock that is held.
    pub fn name(&self) -> &LockName {
        &self.hold.name
    }

    /// Returns the fencing token: greater than those of all earlier grants of this lock, and constant for the life of
    /// this hold.
    pub fn token(&self) -> FencingToken {
        self.hold.token()
    }

    /// Returns the kind, which decides on the other holds beside this one.
    pub fn kind(&self) -> Kind {
        self.hold.lease().kind
    }

    /// Returns the slots of this hold, ascending: one, or as many [`permits`](crate::LockRequest::permits) as were
    /// taken; none for other kinds. They are constant for the life of this hold, and no other hold has them
    /// meanwhile. A slot can be a worker's id, a port, or a seat of a licence (C36).
    ///
    /// Each slot needs its own fence: the token of slot 2 means nothing for slot 1.
    pub fn slots(&self) -> Vec<u16> {
        self.hold.lease().slots().to_vec()
    }

    /// Returns the moment on the holder's own clock at which the holder must stop believing. A renewal moves it.
    pub fn deadline(&self) -> Moment {
        self.hold.deadline()
    }

    /// Returns the time left until the deadline, by the clock; zero once the lock is lost.
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// Returns true while the lock is held, by the clock. The clock alone decides, even if no task has run, so the
    /// answer is right also after a pause. It may be outdated as soon as it is returned.
    pub fn is_held(&self) -> bool {
        // C7: read from the clock, not from the notes of a task.
        self.hold.lost_reason().is_none()
    }

    /// Waits until the lock is lost, and returns the reason.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn lost(&self) -> LostReason {
        if self.is_held() {
            self.shared.ensure_tasks();
        }
        self.hold.ended().await
    }

    /// Returns the error of the last renewal, if it failed. The renewal is repeated until the deadline. If the hold
    /// is then lost ([`LostReason::Expired`]), this error is the cause.
    pub fn renewal_error(&self) -> Option<BackendError> {
        self.hold.renewal_error()
    }

    /// Returns a signal of the loss for other tasks; it outlives the guard.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockRequest, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let guard = locks.acquire("nightly").await?;
    /// let signal = guard.lost_signal();
    /// let watchdog = tokio::spawn(async move { signal.wait().await });
    /// guard.release().await?;
    /// assert_eq!(watchdog.await.unwrap(), lock_core::LostReason::Released);
    /// # Ok(()) }
    /// ```
    pub fn lost_signal(&self) -> LostSignal {
        self.hold.signal()
    }

    /// Runs `work` under the lock, and drops it if the lock is lost.
    ///
    /// The lock is renewed until `work` has really ended: it cannot be released while `work` borrows the guard.
    ///
    /// # Errors
    /// [`LockError::Lost`] if the lock was lost before `work` ended. This includes work that blocked its thread past
    /// the loss, so that it could not be dropped. The effects of `work` until then stay: let the resource check the
    /// token. The value of work that ended after the loss is dropped; [`LockClient::with`](crate::LockClient::with)
    /// returns it beside the loss.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work`, and leaves the lock held.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockRequest, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let guard = locks.acquire("nightly").await?;
    /// let rows = guard.run(async { 42 }).await?;
    /// assert_eq!(rows, 42);
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockError> {
        let value = self.run_to_end(work).await?;
        // C47: the work may have blocked its thread past the deadline.
        self.error_if_lost().map(|()| value)
    }

    /// Runs `work` as [`run`](Self::run) does, and returns its value even if the lock was lost in its last step. The
    /// release that follows reports that loss.
    pub(crate) async fn run_to_end<F: Future>(&self, work: F) -> Result<F::Output, LockError> {
        // C13: the borrow keeps the guard until the work has ended.
        let lost = async { self.hold.lost_error(self.lost().await) };
        while_held(work, lost, || self.error_if_lost()).await
    }

    /// Makes the hold last for at least `ttl` from now.
    ///
    /// The client renews by itself. Use this for a TTL that is too short: if `ttl` is longer than that of the hold,
    /// renewals ask for it from then on. Use it also to let the server confirm the hold before an important step. A
    /// shorter `ttl` has no other effect: it never shortens a hold or its renewals (C10).
    ///
    /// # Errors
    /// - [`LockError::Invalid`]: nothing was sent.
    /// - [`LockError::Lost`] if the lock is lost, which is final.
    /// - [`LockError::Backend`] if the server cannot be reached; the lock stays held until its
    ///   deadline, and renewing goes on.
    ///
    /// # Cancel safety
    /// If the future is dropped, the hold may or may not have been extended.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockRequest, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// # use std::time::Duration;
    /// let guard = locks.acquire("nightly").await?;
    /// // The export turned out large.
    /// guard.extend(Duration::from_secs(300)).await?;
    /// assert!(guard.remaining() > Duration::from_secs(290));
    /// # Ok(()) }
    /// ```
    pub async fn extend(&self, ttl: Duration) -> Result<(), LockError> {
        self.shared.extend_hold(&self.hold, Ttl::new(ttl)?).await
    }

    /// Keeps others out for `span` from the end of this call, however early the hold is released (C41).
    ///
    /// The hold was acquired with its TTL alone, so that a grant whose reply is lost blocks others no longer than
    /// that. If this is dropped or fails, the hold is released at once.
    pub(crate) async fn keep_out(&self, span: Ttl) -> Result<(), LockError> {
        let ttl = self.hold.lease().asked;
        // The server counts from before its answer.
        let longest_try = self.shared.store.options.longest_try();
        let kept = (span.as_duration() + longest_try).min(Ttl::MAX.as_duration());
        if self.hold.remaining() < kept {
            let (kept, clock) = (Ttl::new(kept)?, &self.shared.store.options.clock);
            let asked = clock.now();
            self.shared.extend_hold(&self.hold, kept).await?;
            // A process that stood still reads the answer late.
            if clock.now().since(asked) > longest_try {
                self.shared.extend_hold(&self.hold, kept).await?;
            }
        }
        self.hold.keep_out(span, ttl);
        self.shared.renewer.look_at(&self.hold);
        Ok(())
    }

    /// Records beside the lock that this hold was a run of `occurrence` that ended well (C42). For
    /// `remember`, 10 ms to ten years, a [run once](crate::LockClient::once) of that occurrence is
    /// [`Done`](crate::OnceOutcome::Done).
    ///
    /// A run once of an occurrence calls this by itself. It is for programs that [begin](crate::Once::begin) a run
    /// and end it themselves. The record has the token under which the server knows the hold: after a
    /// [hand-off](crate::ClientOptions::local_hand_off) within the client, that is the token of the first of its tasks. The
    /// server records only while the lock is held under it. If the server does not answer, it is asked again until the
    /// deadline of the hold, while renewals go on. This takes one TTL at the most, or the rest of
    /// [`at_least`](crate::Once::at_least) if that is more.
    ///
    /// # Errors
    /// - [`LockError::Invalid`]: nothing was sent.
    /// - [`LockError::Unsupported`] if the hold is not exclusive: others may run beside it. Nothing was sent.
    /// - [`LockError::Lost`] if the lock is lost, which is final.
    /// - [`LockError::Unrecorded`] if the server refuses, which is returned at once, or did not answer until the
    ///   deadline; the run may be recorded.
    ///
    /// # Cancel safety
    /// If the future is dropped, the run may or may not be recorded.
    pub async fn record(
        &self,
        occurrence: impl AsRef<str>,
        remember: Duration,
    ) -> Result<(), LockError> {
        let occurrence = Occurrence::new(occurrence)?;
        self.hold.error_if_lost()?;
        let lease = self.hold.lease();
        if lease.kind != Kind::Exclusive {
            let (backend, what) = (self.shared.store.name(), "record a run under a shared hold");
            return Err(LockError::Unsupported { name: lease.name, backend, what });
        }
        let record = Record::new(&lease, occurrence, remember)?;
        match self.shared.store.record(&self.hold, &record).await {
            Ok(Recording::Recorded) => Ok(()),
            Ok(Recording::Lost) => {
                self.hold.end(LostReason::Evicted);
                self.hold.error_if_lost()
            }
            Err(source) => {
                let Record { name, occurrence, .. } = record;
                Err(LockError::Unrecorded { name, occurrence, source })
            }
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("lease", &self.hold.lease())
            .field("lost", &self.hold.lost_reason())
            .finish()
    }
}
