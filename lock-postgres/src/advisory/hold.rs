//! Keeps the session of a lock that is held, until the hold is over.
//!
//! ```text
//!   the grant ──▶ kept ──────────────────────────────────▶ Released       the session becomes a spare
//!                  │ ▲ │ nobody extends it, or hears of it
//!                  └─┘ ├────────────────────────────────▶ Expired        the same
//!            extended  │ the connection ends, or is silent
//!                      └────────────────────────────────▶ Disconnected, or Evicted     closed
//! ```

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Claim, Extension, Release};
use lock_core::{BackendError, FencingToken, LostReason, Ttl};
use sqlx::Row;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::claim_handle::{Callers, Command};
use super::holds::{ANSWER_LIMIT, token_number};
use super::shared::Shared;
use crate::error::{classify, ends_session, unreadable};
use crate::reply::micros;
use crate::session::LockSession;
use crate::sql::Call;

/// How often the server is asked for a sign of life. A connection that is cut is seen at once; one that
/// has gone silent is seen by this.
const PING_EVERY: Duration = Duration::from_secs(1);

/// What is done before a loss is told may delay it for so long.
const TELL_WITHIN: Duration = Duration::from_millis(50);

/// The session of a lock that is held.
pub(super) struct Hold<'a> {
    pub(super) shared: Arc<Shared>,
    pub(super) claim: &'a Claim,
    pub(super) token: FencingToken,
    pub(super) session: LockSession,
    /// When the hold is over unless it is extended.
    pub(super) ends_at: Instant,
    /// When it is over unless a caller has heard of it.
    pub(super) unheard_until: Instant,
}

impl Hold<'_> {
    /// Keeps the session until the hold is over, and says how it ended.
    pub(super) async fn run(
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
                () = sleep_until(ping_at) => match self.session.answers_within(ANSWER_LIMIT).await {
                    true => ping_at = Instant::now() + PING_EVERY,
                    false => return self.reason().await,
                },
                () = sleep_until(ends_at) => if self.is_over(callers).await {
                    return self.expire().await;
                },
            }
        }
    }

    /// Whether the hold is over at its end: nobody heard of it (C28), or nobody extended it, also not
    /// another client that attached its lease, which extends it in the row alone.
    async fn is_over(&mut self, callers: &Callers) -> bool {
        if !callers.have_heard() {
            return true;
        }
        let call = self.call("left");
        let Ok(row) = self.session.row_within(ANSWER_LIMIT, &call).await else { return true };
        let left = micros(row.try_get(0).unwrap_or(0));
        // A first caller may have heard of it just now.
        self.ends_at = self.ends_at.max(Instant::now() + left);
        left.is_zero()
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

    fn call(&self, function: &str) -> Call {
        let call = self.shared.holds.call_of(function, &self.claim.name, self.claim.owner);
        call.number(token_number(self.token))
    }
}
