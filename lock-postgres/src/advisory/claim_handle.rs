//! The handle of one claim: what its callers ask of the task that looks after it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lock_core::backend::{Attempt, Extension, Grant, Release, WaiterHandle};
use lock_core::{BackendError, Contention, FencingToken, LostReason, Outcome, Ttl};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::error::BACKEND;

/// How a claim stands.
///
/// ```text
///             busy, and it waits         the lock is free
///   Trying ─────────────────────▶ Waiting ───────────────▶ Held
///     │ │ the lock is free           │                      │
///     │ └────────────────────────────┼──────────────────────┤
///     │ busy, or failed              │ failed, or given up  │ released, expired, lost
///     └──────────────────────────────┴───────▶ Over ◀───────┘
/// ```
#[derive(Clone, Debug)]
pub(super) enum Standing {
    Trying,
    /// In the server's queue, by the session that this process of the server serves.
    Waiting(i32, Contention),
    Held(Grant),
    Over(End),
}

#[derive(Clone, Debug)]
pub(super) enum End {
    Busy(Contention),
    Failed(BackendError),
    Lost(LostReason),
}

/// What a caller wants of the task.
pub(super) enum Command {
    Extend(FencingToken, Ttl, oneshot::Sender<Result<Extension, BackendError>>),
    Release(oneshot::Sender<Result<Release, BackendError>>),
}

/// What the task and the handle share beside commands.
#[derive(Debug, Default)]
pub(super) struct Callers {
    /// Whether a caller has been told of the grant. A grant that nobody hears of is given back (C28).
    heard: AtomicBool,
    /// Whether a caller wants nothing of it any more.
    given_up: AtomicBool,
    waiter: Mutex<Option<WaiterHandle>>,
}

impl Callers {
    pub(super) fn heard(&self) {
        self.heard.store(true, Ordering::Relaxed);
    }

    pub(super) fn have_heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
    }

    pub(super) fn have_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// The waiter to wake; `None` if there is none any more.
    pub(super) fn waiter(&self) -> Option<WaiterHandle> {
        let waiter = self.waiter.lock().unwrap_or_else(PoisonError::into_inner);
        waiter.clone().filter(|waiter| !waiter.is_closed())
    }

    fn set_waiter(&self, waiter: &WaiterHandle) {
        *self.waiter.lock().unwrap_or_else(PoisonError::into_inner) = Some(waiter.clone());
    }
}

/// The handle of a claim. Dropping it ends the session, and with it the wait or the hold.
pub(super) struct ClaimHandle {
    pub(super) callers: Arc<Callers>,
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) standing: watch::Receiver<Standing>,
    pub(super) task: JoinHandle<()>,
}

impl ClaimHandle {
    pub(super) fn is_over(&self) -> bool {
        matches!(*self.standing.borrow(), Standing::Over(_)) || self.task.is_finished()
    }

    /// Whether the claim holds the lock under this token.
    pub(super) fn holds(&self, token: FencingToken) -> bool {
        matches!(&*self.standing.borrow(), Standing::Held(grant) if grant.token == token)
    }

    /// Waits until the claim has been tried, and says how it stands.
    pub(super) async fn tried(&self, waiter: Option<&WaiterHandle>) -> Standing {
        if let Some(waiter) = waiter {
            self.callers.set_waiter(waiter);
        }
        let mut standing = self.standing.clone();
        match standing.wait_for(|standing| !matches!(standing, Standing::Trying)).await {
            Ok(standing) => standing.clone(),
            // The runtime that keeps the sessions has ended.
            Err(_) => Standing::Over(End::Failed(runtime_ended())),
        }
    }

    /// Tells the first caller of its grant.
    pub(super) fn grant(&self, grant: Grant) -> Attempt {
        self.callers.heard();
        Attempt::Granted(grant)
    }

    /// Tells a later caller of the grant, which lasts a whole TTL from now (C16); `None` if the hold is
    /// over.
    pub(super) async fn grant_again(
        &self,
        grant: &Grant,
        ttl: Ttl,
    ) -> Result<Option<Attempt>, BackendError> {
        Ok(match self.extend(grant.token, ttl).await? {
            Extension::Extended(ttl) => Some(Attempt::Granted(Grant::new(grant.token, ttl))),
            Extension::Lost => None,
        })
    }

    pub(super) async fn extend(
        &self,
        token: FencingToken,
        ttl: Ttl,
    ) -> Result<Extension, BackendError> {
        let (reply, answer) = oneshot::channel();
        // A task that is over takes no command any more.
        let _ = self.commands.send(Command::Extend(token, ttl, reply)).await;
        answer.await.unwrap_or(Ok(Extension::Lost))
    }

    /// Ends the hold or the wait, and no other claim's: the session is this claim's own.
    pub(super) async fn release(&self) -> Result<Release, BackendError> {
        self.callers.given_up.store(true, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(Command::Release(reply)).await;
        answer.await.unwrap_or(Ok(Release::NotHeld))
    }

    /// Completes when the hold is over.
    pub(super) fn watch(&self) -> impl Future<Output = LostReason> + Send + 'static {
        let mut standing = self.standing.clone();
        async move {
            let over = standing.wait_for(|standing| matches!(standing, Standing::Over(_))).await;
            match over.as_deref() {
                Ok(Standing::Over(End::Lost(reason))) => *reason,
                // C8: the session is the lock.
                _ => LostReason::Disconnected,
            }
        }
    }
}

impl Drop for ClaimHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn runtime_ended() -> BackendError {
    let context = "the runtime that keeps the sessions has ended";
    BackendError::transient(BACKEND, Outcome::NotApplied, context, context)
}
