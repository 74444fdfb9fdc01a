//! Keeps the session of a lock that is held, until the hold is over.
//!
//! ```text
//!   the grant ──▶ kept ──────────────────────────────────▶ Released       the session is kept for others
//!                  │ ▲ │ nobody extends it, or hears of it
//!                  └─┘ ├────────────────────────────────▶ Expired        the same
//!            extended  │ the connection ends, or is silent
//!                      └────────────────────────────────▶ Disconnected, or Evicted     closed
//! ```

use std::time::Duration;

use lock_core::backend::{Attempt, Claim, Extension, Grant, Release, UNCLAIMED_GRANT_TTL};
use lock_core::{BackendError, FencingToken, LostReason, Ttl};
use sqlx::postgres::PgRow;
use sqlx::{Error, Row};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until, timeout};

use super::command::{Command, Tried};
use super::rows::{Rows, millis};
use super::sessions::Sessions;
use super::silence::{ANSWER_LIMIT, PING_EVERY};
use crate::error::{RequestError, classify, ends_session, unreadable};
use crate::reply::micros;
use crate::session::LockSession;
use crate::sql::Call;

/// What is done before a loss is told may delay it for so long.
const TELL_WITHIN: Duration = Duration::from_millis(50);

/// The session of a lock that is held.
pub(super) struct Hold<'a> {
    rows: &'a Rows,
    sessions: &'a Sessions,
    claim: &'a Claim,
    token: FencingToken,
    session: LockSession,
    /// Whether a caller has heard of the grant.
    heard: bool,
    /// When the hold is over unless it is extended.
    ends_at: Instant,
}

impl<'a> Hold<'a> {
    pub(super) fn new(
        rows: &'a Rows,
        sessions: &'a Sessions,
        claim: &'a Claim,
        session: LockSession,
        grant: Grant,
        heard: bool,
    ) -> Self {
        // C28: one of which nobody has heard yet waits no longer for that.
        let lasts = if heard { grant.ttl } else { grant.ttl.min(UNCLAIMED_GRANT_TTL) };
        Self {
            rows,
            sessions,
            claim,
            token: grant.token,
            session,
            heard,
            ends_at: Instant::now() + lasts,
        }
    }

    /// Keeps the session until the hold is over, and says how it ended.
    pub(super) async fn run(mut self, commands: &mut UnboundedReceiver<Command>) -> LostReason {
        let mut ping_at = Instant::now() + PING_EVERY;
        loop {
            let ends_at = self.ends_at;
            tokio::select! {
                command = commands.recv() => match command {
                    None => return LostReason::Shutdown,
                    Some(Command::Release(reply)) => {
                        let _ = reply.send(self.release().await);
                        return LostReason::Released;
                    }
                    Some(command) => if !self.obey(command).await {
                        return self.end().await;
                    },
                },
                // C8: the connection is the lock, so its end is told when it arrives.
                () = self.session.ended() => return self.reason().await,
                () = sleep_until(ping_at) => match self.session.answers_within(ANSWER_LIMIT).await {
                    true => ping_at = Instant::now() + PING_EVERY,
                    false => return self.reason().await,
                },
                () = sleep_until(ends_at) => if self.is_over().await {
                    return self.expire().await;
                },
            }
        }
    }

    /// Extends the hold for a caller, and says whether it lasts.
    async fn obey(&mut self, command: Command) -> bool {
        let (token, ttl) = match command {
            Command::Extend(token, ttl, _) => (token, ttl),
            Command::Try(..) | Command::Release(_) => (self.token, self.claim.ttl),
        };
        let extended = self.extend(token, ttl).await;
        let lasts = !matches!(extended, Ok(Extension::Lost));
        match command {
            Command::Extend(_, _, reply) => drop(reply.send(extended)),
            // C16: told again, for a whole TTL from now. Where the hold is over, the caller begins anew.
            Command::Try(_, reply) if lasts => {
                let grant = Grant::new(self.token, ttl.as_duration());
                let told = extended.map(|_| Attempt::Granted(grant));
                let _ = reply.send(Tried::Answered(told));
            }
            Command::Try(..) | Command::Release(_) => {}
        }
        lasts
    }

    /// Whether the hold is over at its end: nobody heard of it (C28), or nobody extended it, also not
    /// another client that attached its lease, which extends it in the row alone.
    async fn is_over(&mut self) -> bool {
        if !self.heard {
            return true;
        }
        let asked = Instant::now();
        let call = self.call("left", self.token);
        let Ok(row) = self.row(&call).await else { return true };
        let left = micros(row.try_get(0).unwrap_or(0));
        self.ends_at = asked + left;
        left.is_zero()
    }

    /// Extends the hold in its row, and lets the server bear our silence for as long.
    async fn extend(&mut self, token: FencingToken, ttl: Ttl) -> Result<Extension, BackendError> {
        let asked = Instant::now();
        let call = self.call("extend", token).number(millis(ttl));
        self.heard = true;
        match self.row(&call).await {
            Ok(row) if row.try_get(0).unwrap_or(false) => {
                self.ends_at = self.ends_at.max(asked + ttl.as_duration());
                Ok(Extension::Extended(ttl.as_duration()))
            }
            Ok(_) => Ok(Extension::Lost),
            Err(error) if ends_session(&error) => Ok(Extension::Lost),
            Err(error) => Err(classify(error)),
        }
    }

    /// Frees the lock, and leaves the session to others if the server says that it is free.
    async fn release(mut self) -> Result<Release, BackendError> {
        let call = self.rows.call_to_release(self.claim, self.token);
        match self.row(&call).await {
            Ok(row) if row.try_get(0).unwrap_or(false) => {
                self.sessions.put_back(self.session);
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
        let told = self.rows.how_it_ended(self.claim, self.token);
        timeout(TELL_WITHIN, told).await.unwrap_or(LostReason::Disconnected)
    }

    fn call(&self, function: &str, token: FencingToken) -> Call {
        self.rows.call_of(function, &self.claim.name, self.claim.owner, token)
    }

    /// Asks over the session. One that is silent for too long is over: whatever it answers later, nobody
    /// reads.
    async fn row(&mut self, call: &Call) -> Result<PgRow, RequestError> {
        let silent = || Error::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        let row = timeout(ANSWER_LIMIT, self.session.row(call)).await;
        row.unwrap_or_else(|_| Err(RequestError::Execute(silent())))
    }
}
