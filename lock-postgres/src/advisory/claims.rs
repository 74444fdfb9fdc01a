//! The claims of one client that wait or hold, and those that it gave up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::backend::{Extension, Release, Withdrawals};
use lock_core::{BackendError, FencingToken, LostReason, OwnerId, Ttl};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::command::{Command, Standing};
use crate::error::BACKEND;

/// What the callers of a claim have of its task. Dropping it ends the session, and with it the wait or the
/// hold.
pub(super) struct ClaimHandle {
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) standing: watch::Receiver<Standing>,
    pub(super) task: JoinHandle<()>,
}

impl ClaimHandle {
    pub(super) fn is_over(&self) -> bool {
        self.commands.is_closed()
    }

    /// Whether the claim holds the lock under this token.
    pub(super) fn holds(&self, token: FencingToken) -> bool {
        matches!(*self.standing.borrow(), Standing::Held(held) if held == token)
    }

    pub(super) async fn extend(
        &self,
        token: FencingToken,
        ttl: Ttl,
    ) -> Result<Extension, BackendError> {
        let over = Ok(Extension::Lost);
        self.ask(|reply| Command::Extend(token, ttl, reply)).await.unwrap_or(over)
    }

    /// Ends the hold or the wait, and no other claim's: the session is this claim's own.
    pub(super) async fn release(&self) -> Result<Release, BackendError> {
        self.ask(Command::Release).await.unwrap_or(Ok(Release::NotHeld))
    }

    /// Has the task answer; `None` if the claim is over.
    pub(super) async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).ok()?;
        answer.await.ok()
    }

    /// Completes when the claim is over.
    pub(super) fn watch(&self) -> impl Future<Output = LostReason> + Send + 'static {
        let mut standing = self.standing.clone();
        async move {
            let over = standing.wait_for(|standing| matches!(standing, Standing::Over(_))).await;
            match over.as_deref() {
                Ok(Standing::Over(reason)) => *reason,
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

/// The claims of one client by owner. An owner has one at a time, which all its requests go to (C16).
pub(super) struct Claims {
    /// The start of its clock.
    started: Instant,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    handles: HashMap<OwnerId, Arc<ClaimHandle>>,
    withdrawn: Withdrawals,
}

/// A claim that was there, or what came of beginning one.
pub(super) enum Found<T> {
    Alive(Arc<ClaimHandle>),
    Begun(T),
}

impl Claims {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), entries: Mutex::default() }
    }

    /// The claim of an owner, which may be over.
    pub(super) fn known(&self, owner: OwnerId) -> Option<Arc<ClaimHandle>> {
        self.entries().handles.get(&owner).cloned()
    }

    /// The claim of an owner that is not over, or a new one; refused if it was withdrawn.
    pub(super) fn alive_or<T>(
        &self,
        owner: OwnerId,
        begin: impl FnOnce() -> (ClaimHandle, T),
    ) -> Result<Found<T>, BackendError> {
        let mut entries = self.entries();
        if entries.withdrawn.contains(owner) {
            return Err(BackendError::withdrawn(BACKEND));
        }
        if let Some(alive) = entries.handles.get(&owner).filter(|claim| !claim.is_over()) {
            return Ok(Found::Alive(alive.clone()));
        }
        // R4: those that are over are forgotten before the map grows.
        if entries.handles.len() == entries.handles.capacity() {
            entries.handles.retain(|_, claim| !claim.is_over());
        }
        let (handle, begun) = begin();
        entries.handles.insert(owner, Arc::new(handle));
        Ok(Found::Begun(begun))
    }

    pub(super) fn forget(&self, owner: OwnerId) {
        self.entries().handles.remove(&owner);
    }

    /// C19: from now on every request of the claim is refused.
    pub(super) fn withdraw(&self, owner: OwnerId) {
        let now = self.started.elapsed();
        self.entries().withdrawn.remember(owner, now);
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
