//! Looks after one claim: takes the lock or waits for it, and keeps the session that holds it.
//!
//! Each claim has a session of its own, which belongs to no other claim while it waits or holds. So nothing
//! that an earlier claim left behind can end the hold of a later one.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Claim, Extension, Grant, Release, ServerTime, UNCLAIMED_GRANT_TTL};
use lock_core::{BackendError, Contention, LostReason, Outcome};
use sqlx::postgres::PgRow;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::claim_handle::{Callers, Command, End, Standing};
use super::hold::Hold;
use super::holds::contention;
use super::shared::Shared;
use crate::error::{BACKEND, RequestError, classify, ends_session};
use crate::reply::{self, get, micros};
use crate::session::LockSession;

/// How long an attempt may take, whether or not its caller waits.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(3);

/// Owns the session. Its end, by return or by abort, closes the connection and so frees the lock, unless
/// the lock was freed before.
pub(super) struct ClaimTask {
    pub(super) shared: Arc<Shared>,
    pub(super) claim: Claim,
    /// Whether a lock that is busy is waited for.
    pub(super) waits: bool,
    pub(super) callers: Arc<Callers>,
    pub(super) standing: watch::Sender<Standing>,
    pub(super) commands: mpsc::Receiver<Command>,
}

/// What an attempt came to.
enum Tried {
    Granted(LockSession, Grant),
    Busy(LockSession, Contention),
}

impl ClaimTask {
    pub(super) async fn run(mut self) {
        let end = match self.attempt_in_time().await {
            Ok(Tried::Granted(session, grant)) => self.hold(session, grant).await,
            Ok(Tried::Busy(session, seen)) if self.waits => self.wait(session, seen).await,
            Ok(Tried::Busy(session, seen)) => {
                self.shared.spares.put_back(session);
                End::Busy(seen)
            }
            Err(error) => End::Failed(error),
        };
        self.standing.send_replace(Standing::Over(end));
        // One who still waits begins anew.
        if let Some(waiter) = self.callers.waiter() {
            waiter.try_again();
        }
    }

    async fn attempt_in_time(&self) -> Result<Tried, BackendError> {
        timeout(ATTEMPT_LIMIT, self.attempt()).await.unwrap_or_else(|_| {
            // What swallowed the requests of this session swallows those of the others as well.
            self.shared.spares.give_up_all();
            Err(BackendError::no_answer(BACKEND, ATTEMPT_LIMIT))
        })
    }

    /// Takes the lock if it is free, in one request.
    async fn attempt(&self) -> Result<Tried, BackendError> {
        const WHAT: &str = "the answer to an acquire";
        let _permit = self.shared.attempts.acquire().await;
        if self.callers.have_given_up() {
            return Err(BackendError::withdrawn(BACKEND));
        }
        let (session, row) = self.take().await.map_err(classify)?;
        self.check_process(&session, &row)?;
        match get::<Option<i64>>(&row, 1, WHAT)? {
            Some(_) => Ok(Tried::Granted(session, granted(&row, &self.claim)?)),
            None => Ok(Tried::Busy(session, contention(&row, 2)?)),
        }
    }

    /// Asks over a spare session, or a new one if none is alive.
    async fn take(&self) -> Result<(LockSession, PgRow), RequestError> {
        let call = self.shared.holds.call_for("take", &self.claim);
        while let Some(mut spare) = self.shared.spares.take() {
            match spare.row(&call).await {
                // It was over before it was asked, or is now: it holds nothing.
                Err(error) if ends_session(&error) => {}
                row => return row.map(|row| (spare, row)),
            }
        }
        let mut session = LockSession::open(self.shared.holds.server.connections.options()).await?;
        let row = session.row(&call).await?;
        Ok((session, row))
    }

    /// The process that took the lock is the one that serves the connection.
    fn check_process(&self, session: &LockSession, row: &PgRow) -> Result<(), BackendError> {
        match get::<i32>(row, 0, "the process of a session")? == session.process {
            true => Ok(()),
            false => {
                let context =
                    "a pooler gives each transaction another session: use `lock_mode=table`";
                Err(BackendError::permanent(BACKEND, Outcome::Unknown, context, context))
            }
        }
    }

    /// Waits in the server, first come, first served (C27), until the lock is ours or the wait is given up.
    async fn wait(&mut self, mut session: LockSession, seen: Contention) -> End {
        let process = session.process;
        self.standing.send_replace(Standing::Waiting(process, seen));
        let call = self.shared.holds.call_for("wait", &self.claim);
        let (row, leaving) = {
            let mut answer = pin!(session.call(&call));
            let mut leaving: Option<oneshot::Sender<_>> = None;
            loop {
                tokio::select! {
                    rows = &mut answer => break (rows, leaving),
                    command = self.commands.recv() => match command {
                        None => return End::Lost(LostReason::Shutdown),
                        Some(Command::Extend(_, _, reply)) => drop(reply.send(Ok(Extension::Lost))),
                        Some(Command::Release(reply)) => {
                            match self.shared.holds.leave(&self.claim.name, process).await {
                                Ok(()) => leaving = Some(reply),
                                Err(error) => drop(reply.send(Err(error))),
                            }
                        }
                    },
                }
            }
        };
        let grant = self.grant_of(&session, row);
        match (grant, leaving) {
            (Ok(grant), None) => self.hold_pushed(session, grant).await,
            // Given up. Closing the connection frees what may have been taken.
            (_, Some(reply)) => {
                drop(session);
                let _ = reply.send(Ok(Release::Released));
                End::Lost(LostReason::Released)
            }
            (Err(error), None) => End::Failed(error),
        }
    }

    fn grant_of(
        &self,
        session: &LockSession,
        rows: Result<Vec<PgRow>, RequestError>,
    ) -> Result<Grant, BackendError> {
        let row = reply::only(rows.map_err(classify)?, "the answer to a wait")?;
        self.check_process(session, &row)?;
        granted(&row, &self.claim)
    }

    /// Tells the waiter, who may be gone. A grant that is not renewed soon is given back (C28).
    async fn hold_pushed(&mut self, session: LockSession, grant: Grant) -> End {
        let mut pushed = grant;
        pushed.ttl = grant.ttl.min(UNCLAIMED_GRANT_TTL);
        if let Some(waiter) = self.callers.waiter() {
            waiter.granted(pushed);
        }
        self.hold(session, grant).await
    }

    async fn hold(&mut self, session: LockSession, grant: Grant) -> End {
        let now = Instant::now();
        let hold = Hold {
            shared: self.shared.clone(),
            claim: &self.claim,
            token: grant.token,
            session,
            ends_at: now + self.claim.ttl.as_duration(),
            unheard_until: now + UNCLAIMED_GRANT_TTL.min(self.claim.ttl.as_duration()),
        };
        self.standing.send_replace(Standing::Held(grant));
        End::Lost(hold.run(&self.callers, &mut self.commands).await)
    }
}

/// Reads a grant: process, token, the server's time.
fn granted(row: &PgRow, claim: &Claim) -> Result<Grant, BackendError> {
    const WHAT: &str = "a grant";
    let token = reply::fencing_token(get(row, 1, WHAT)?)?;
    let at = ServerTime(micros(get(row, 2, WHAT)?));
    Ok(Grant::new(token, claim.ttl.as_duration()).at(at))
}
