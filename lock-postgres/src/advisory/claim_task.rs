//! Looks after one claim: takes the lock or waits for it, and keeps the session that holds it.
//!
//! Each claim has a session of its own, which belongs to no other claim while it waits or holds. So nothing
//! that an earlier claim left behind can end the hold of a later one.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Claim, Extension, Grant, Release, ServerTime, UNCLAIMED_GRANT_TTL};
use lock_core::{BackendError, Contention, FencingToken, LostReason, Outcome, Ttl};
use sqlx::Row;
use sqlx::postgres::PgRow;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::claim_handle::{Callers, Command, End, Standing};
use super::holds::{ANSWER_LIMIT, Holds, contention, token_number};
use super::spares::Spares;
use crate::error::{BACKEND, RequestError, classify, ends_session, unreadable};
use crate::reply::{self, get, micros};
use crate::session::LockSession;

/// How long an attempt may take, whether or not its caller waits.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(3);

/// How often the server is asked for a sign of life. A connection that is cut is seen at once; one that
/// has gone silent is seen by this.
const PING_EVERY: Duration = Duration::from_secs(1);

/// What is done before a loss is told may delay it for so long.
const TELL_WITHIN: Duration = Duration::from_millis(50);

/// What the claims of a client share.
pub(super) struct Shared {
    pub(super) holds: Holds,
    /// Sessions that hold nothing.
    pub(super) spares: Spares,
    /// Attempts, some of which may be under way at a time.
    pub(super) attempts: Semaphore,
}

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

/// The session of a lock that is held.
struct Hold<'a> {
    shared: Arc<Shared>,
    claim: &'a Claim,
    token: FencingToken,
    session: LockSession,
    /// When the hold is over unless it is extended.
    ends_at: Instant,
    /// When it is over unless a caller has heard of it.
    unheard_until: Instant,
}

impl Hold<'_> {
    /// Keeps the session until the hold is over, and says how it ended.
    async fn run(
        mut self,
        callers: &Callers,
        commands: &mut mpsc::Receiver<Command>,
    ) -> LostReason {
        let mut ping_at = Instant::now() + PING_EVERY;
        loop {
            let heard = callers.have_heard();
            let ends_at = if heard { self.ends_at } else { self.unheard_until };
            tokio::select! {
                command = commands.recv() => match command {
                    None => return LostReason::Shutdown,
                    Some(Command::Release(reply)) => {
                        let _ = reply.send(self.release().await);
                        return LostReason::Released;
                    }
                    Some(Command::Extend(token, ttl, reply)) => {
                        callers.heard();
                        let extended = self.extend(token, ttl).await;
                        let is_lost = matches!(extended, Ok(Extension::Lost));
                        let _ = reply.send(extended);
                        if is_lost {
                            return self.end().await;
                        }
                    }
                },
                // C8: the connection is the lock, so its end is told at once.
                () = self.session.ended() => return self.reason().await,
                () = sleep_until(ping_at) => {
                    if !self.session.answers_within(ANSWER_LIMIT).await {
                        return self.reason().await;
                    }
                    ping_at = Instant::now() + PING_EVERY;
                }
                () = sleep_until(ends_at) => {
                    if !(heard || callers.have_heard()) || !self.was_extended_elsewhere().await {
                        return self.expire().await;
                    }
                }
            }
        }
    }

    /// Extends the hold in its row, and lets the server bear our silence for as long.
    async fn extend(&mut self, token: FencingToken, ttl: Ttl) -> Result<Extension, BackendError> {
        let (asked, claim) = (Instant::now(), self.claim);
        let call = self.shared.holds.call_to_extend(&claim.name, claim.owner, token, ttl);
        match self.session.row_within(ANSWER_LIMIT, &call).await {
            Ok(row) if row.try_get(0).unwrap_or(false) => {
                self.ends_at = self.ends_at.max(asked + ttl.as_duration());
                Ok(Extension::Extended(ttl.as_duration()))
            }
            Ok(_) => Ok(Extension::Lost),
            Err(error) if ends_session(&error) => Ok(Extension::Lost),
            Err(error) => Err(classify(error)),
        }
    }

    /// Another client that attached the lease extends it in the row alone.
    async fn was_extended_elsewhere(&mut self) -> bool {
        let call = self.call("left");
        let Ok(row) = self.session.row_within(ANSWER_LIMIT, &call).await else { return false };
        let left = micros(row.try_get(0).unwrap_or(0));
        self.ends_at = Instant::now() + left;
        !left.is_zero()
    }

    /// Frees the lock, and leaves the session to others if the server says that it is free.
    async fn release(mut self) -> Result<Release, BackendError> {
        let call = self.call("release");
        match self.session.row_within(ANSWER_LIMIT, &call).await {
            Ok(row) if row.try_get(0).unwrap_or(false) => {
                self.shared.spares.put_back(self.session);
                Ok(Release::Released)
            }
            Ok(_) => Err(unreadable("the answer to an unlock")),
            Err(error) if ends_session(&error) => Ok(Release::NotHeld),
            Err(error) => Err(classify(error)),
        }
    }

    async fn expire(self) -> LostReason {
        let _ = timeout(TELL_WITHIN, self.release()).await;
        LostReason::Expired
    }

    /// Frees the lock, if it is not free, and says how the hold ended.
    async fn end(self) -> LostReason {
        let reason = self.reason().await;
        let _ = timeout(TELL_WITHIN, self.release()).await;
        reason
    }

    async fn reason(&self) -> LostReason {
        let told = self.shared.holds.how_it_ended(&self.claim.name, self.claim.owner);
        timeout(TELL_WITHIN, told).await.unwrap_or(LostReason::Disconnected)
    }

    fn call(&self, function: &str) -> crate::sql::Call {
        let call = self.shared.holds.call_of(function, &self.claim.name, self.claim.owner);
        call.number(token_number(self.token))
    }
}
