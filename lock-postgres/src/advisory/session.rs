//! The handle of one advisory lock that is held.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::backend::{Extension, Release};
use lock_core::{BackendError, LostReason, Ttl};
use sqlx::PgConnection;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::session_task::{Command, Held, SessionTask};
use crate::connections::Connections;

/// The handle of a held session. Dropping it ends the session, and with it the hold.
pub(super) struct Session {
    pub(super) held: Held,
    /// Whether its holder was heard of since the grant.
    claimed: AtomicBool,
    commands: mpsc::Sender<Command>,
    ended: watch::Receiver<Option<LostReason>>,
    task: JoinHandle<()>,
}

impl Session {
    /// Keeps the session that holds the lock, on the current runtime.
    pub(super) fn keep(
        held: Held,
        ttl: Ttl,
        connection: PgConnection,
        spares: Arc<Connections>,
    ) -> Self {
        let (commands, receiver) = mpsc::channel(16);
        let (end, ended) = watch::channel(None);
        let session = SessionTask::new(held.clone(), ttl, connection, spares);
        let task = tokio::spawn(async move {
            let reason = session.run(receiver).await;
            end.send_replace(Some(reason));
        });
        Self { held, claimed: AtomicBool::new(false), commands, ended, task }
    }

    pub(super) fn is_over(&self) -> bool {
        self.ended.borrow().is_some() || self.task.is_finished()
    }

    pub(super) fn is_claimed(&self) -> bool {
        self.claimed.load(Ordering::Relaxed)
    }

    /// Completes when the hold is over.
    pub(super) fn watch(&self) -> impl Future<Output = LostReason> + Send + 'static {
        let mut ended = self.ended.clone();
        async move {
            let reason = match ended.wait_for(Option::is_some).await {
                Ok(reason) => *reason,
                Err(_) => None,
            };
            // C8: the session is the lock.
            reason.unwrap_or(LostReason::Disconnected)
        }
    }

    pub(super) async fn extend(&self, ttl: Ttl) -> Result<Extension, BackendError> {
        self.claimed.store(true, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        // A session that is over takes no command any more.
        let _ = self.commands.send(Command::Extend(ttl, reply)).await;
        answer.await.unwrap_or(Ok(Extension::Lost))
    }

    pub(super) async fn release(&self) -> Result<Release, BackendError> {
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(Command::Release(reply)).await;
        answer.await.unwrap_or(Ok(Release::NotHeld))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}
