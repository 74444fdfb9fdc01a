//! Looks after one claim: takes the lock or waits for it, and keeps the session that holds it.
//!
//! Each claim has a session of its own, which belongs to no other claim while it waits or holds. So nothing
//! that an earlier claim left behind can end the hold of a later one.
//!
//! ```text
//!             busy, and it waits         the lock is free
//!   Trying ─────────────────────▶ Waiting ───────────────▶ Held
//!     │ │ the lock is free           │                      ▲│
//!     │ └────────────────────────────┼──────────────────────┘│
//!     │ busy, or failed              │ failed, or given up   │ released, expired, lost
//!     └──────────────────────────────┴───────▶ Over ◀────────┘
//! ```

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use lock_core::backend::{
    Attempt, Claim, Extension, Grant, Release, ServerTime, UNCLAIMED_GRANT_TTL, WaiterHandle,
};
use lock_core::{BackendError, Outcome};
use sqlx::Error;
use sqlx::postgres::PgRow;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use super::command::{Command, Standing, Tried};
use super::hold::Hold;
use super::rows::{Rows, Waits, contention};
use super::sessions::Sessions;
use crate::error::{BACKEND, RequestError, classify, unreadable};
use crate::reply::{self, get, micros};
use crate::session::LockSession;

/// How long an attempt may take, whether or not its caller waits.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(3);

/// What the claims of a client share.
pub(super) struct Shared {
    pub(super) rows: Rows,
    pub(super) sessions: Sessions,
}

/// Owns the session. Its end, by return or by abort, closes the connection and so frees the lock, unless
/// the lock was freed before.
pub(super) struct ClaimTask {
    pub(super) shared: Arc<Shared>,
    pub(super) claim: Claim,
    /// Whom to wake; a lock that is busy is waited for if somebody is to be woken.
    pub(super) waiter: Option<WaiterHandle>,
    pub(super) standing: watch::Sender<Standing>,
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
}

impl ClaimTask {
    /// Answers the request that began the claim, and looks after what comes of it.
    pub(super) async fn run(self, first: oneshot::Sender<Tried>) {
        let end = Instant::now() + ATTEMPT_LIMIT;
        let session = async { self.shared.sessions.get().await.map_err(classify) };
        match self.in_time(end, session).await {
            Ok((session, turn)) => self.ask(session, turn, end, first).await,
            Err(error) => _ = tell(first, Err(error)),
        }
    }

    /// Takes the lock, in one request also if it is waited for: the server first tells that the lock is busy, and
    /// then, once the session has it, of the grant.
    async fn ask(
        mut self,
        mut session: LockSession,
        turn: OwnedSemaphorePermit,
        end: Instant,
        first: oneshot::Sender<Tried>,
    ) {
        let call = self.shared.rows.call_to_take(&self.claim, Waits(self.waiter.is_some()));
        let process = session.process;
        let mut rows = session.rows(&call);
        let attempt = self.in_time(end, self.attempt(&mut rows, process)).await;
        drop(turn);
        match attempt {
            Err(error) => _ = tell(first, Err(error)),
            Ok(Attempt::Granted(grant)) => {
                drop(rows);
                // C28: a grant of which nobody hears is given back.
                let heard = tell(first, Ok(Attempt::Granted(grant.clone())));
                self.hold(session, grant, heard).await;
            }
            Ok(busy) if self.waiter.is_none() => {
                drop(rows);
                self.shared.sessions.put_back(session);
                tell(first, Ok(busy));
            }
            Ok(busy) => {
                tell(first, Ok(busy));
                let granted = self.wait(&mut rows, process).await;
                drop(rows);
                match granted {
                    Ok(Some(grant)) => self.hold_pushed(session, grant).await,
                    // Given up. Closing the connection frees what may have been taken.
                    Ok(None) => {}
                    // The waiter begins anew.
                    Err(_) => self.wake(WaiterHandle::try_again),
                }
            }
        }
    }

    async fn in_time<T>(
        &self,
        end: Instant,
        step: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        timeout_at(end, step).await.unwrap_or_else(|_| {
            // What swallowed this request swallows those of the other sessions as well.
            self.shared.sessions.give_up_idle();
            Err(BackendError::no_answer(BACKEND, ATTEMPT_LIMIT))
        })
    }

    /// Reads what came of the attempt to take the lock.
    async fn attempt(&self, rows: &mut Answer<'_>, process: i32) -> Result<Attempt, BackendError> {
        let row = next(rows).await?;
        let grant = self.grant(&row, process)?;
        if grant.is_some() || self.waiter.is_none() {
            read_to_the_end(rows).await?;
        }
        Ok(match grant {
            Some(grant) => Attempt::Granted(grant),
            None => Attempt::Busy(contention(&row, 2)?),
        })
    }

    /// Reads a grant: process, token, the server's time. The process that took the lock is the one that serves
    /// the connection.
    fn grant(&self, row: &PgRow, process: i32) -> Result<Option<Grant>, BackendError> {
        const WHAT: &str = "the answer to an acquire";
        if get::<i32>(row, 0, WHAT)? != process {
            let context = "a pooler gives each transaction another session: use `lock_mode=table`";
            return Err(BackendError::permanent(BACKEND, Outcome::Unknown, context, context));
        }
        let Some(token) = get::<Option<i64>>(row, 1, WHAT)? else { return Ok(None) };
        let at = ServerTime(micros(get(row, 2, WHAT)?));
        let grant = Grant::new(reply::fencing_token(token)?, self.claim.ttl.as_duration());
        // Before anybody is told, who might ask for it.
        self.standing.send_replace(Standing::Held(grant.token));
        Ok(Some(grant.at(at)))
    }

    /// Waits in the server, first come, first served (C27), until the lock is ours; `None` if the wait is given
    /// up.
    async fn wait(
        &mut self,
        rows: &mut Answer<'_>,
        process: i32,
    ) -> Result<Option<Grant>, BackendError> {
        loop {
            tokio::select! {
                row = next(rows) => {
                    let grant = self.grant(&row?, process)?;
                    read_to_the_end(rows).await?;
                    return Ok(grant);
                }
                command = self.commands.recv() => {
                    let Some(command) = command else { return Ok(None) };
                    if self.gives_up(command, process).await {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Does what is wanted of a claim that waits; true if the wait is given up.
    async fn gives_up(&mut self, command: Command, process: i32) -> bool {
        match command {
            Command::Try(waiter, reply) => {
                self.waiter = waiter.or(self.waiter.take());
                let _ = reply.send(Tried::Waiting(process));
                false
            }
            Command::Extend(_, _, reply) => {
                let _ = reply.send(Ok(Extension::Lost));
                false
            }
            Command::Release(reply) => {
                let left = self.shared.rows.leave(&self.claim, process).await;
                let has_left = left.is_ok();
                let _ = reply.send(left.map(|()| Release::Released));
                has_left
            }
        }
    }

    /// Tells the waiter, who may be gone. A grant that is not renewed soon is given back (C28).
    async fn hold_pushed(self, session: LockSession, grant: Grant) {
        let mut pushed = grant.clone();
        pushed.ttl = grant.ttl.min(UNCLAIMED_GRANT_TTL);
        self.wake(|waiter| waiter.granted(pushed));
        self.hold(session, grant, false).await;
    }

    async fn hold(mut self, session: LockSession, grant: Grant, heard: bool) {
        let Shared { rows, sessions } = &*self.shared;
        let hold = Hold::new(rows, sessions, &self.claim, session, grant, heard);
        let reason = hold.run(&mut self.commands).await;
        self.standing.send_replace(Standing::Over(reason));
        // One who still waits begins anew.
        self.wake(WaiterHandle::try_again);
    }

    fn wake(&self, wake: impl FnOnce(&WaiterHandle)) {
        if let Some(waiter) = &self.waiter {
            wake(waiter);
        }
    }
}

/// Whether the caller has heard.
fn tell(caller: oneshot::Sender<Tried>, attempt: Result<Attempt, BackendError>) -> bool {
    caller.send(Tried::Answered(attempt)).is_ok()
}

/// What the server tells, one row after the other.
type Answer<'a> = BoxStream<'a, Result<PgRow, RequestError>>;

async fn next(answer: &mut Answer<'_>) -> Result<PgRow, BackendError> {
    let row = answer.next().await.unwrap_or(Err(RequestError::Execute(Error::RowNotFound)));
    row.map_err(classify)
}

/// C21: nothing of the answer is left to be read by the next one who asks.
async fn read_to_the_end(answer: &mut Answer<'_>) -> Result<(), BackendError> {
    match answer.next().await {
        None => Ok(()),
        Some(Err(error)) => Err(classify(error)),
        Some(Ok(_)) => Err(unreadable("the answer to an acquire")),
    }
}
