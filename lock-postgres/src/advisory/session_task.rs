//! Looks after the session of one hold, and owns its connection.
//!
//! ```text
//!              Extend, or a look that finds it
//!                       ┌─────┐
//!    grant              ▼     │    Release                      connection
//!   ───────────────▶ looked after ───────────▶ Released ──────▶ kept as a spare
//!                          │ the row says it is over, or the TTL is
//!                          ├────────────────▶ Evicted, Expired ─▶ kept, or closed
//!                          │ the server or the connection says that it ended
//!                          └────────────────▶ Disconnected ─────▶ closed
//! ```

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Extension, Release};
use lock_core::{BackendError, FencingToken, LockName, LostReason, OwnerId, Ttl};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use super::rows::{self, NOT_OVER};
use crate::connections::Connections;
use crate::error::{RequestError, classify, ends_session, unreadable};
use crate::reply::micros;
use crate::transaction::{Form, Request, read_to_the_end, send};

/// How often to ask whether the session still lives and the hold is still ours.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long the server may take to answer what is asked of a hold.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// What is done before a loss is told may delay it for so long.
const TELL_WITHIN: Duration = Duration::from_millis(100);

/// Which lock, in which row, by whom.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) name: LockName,
    pub(super) owner: OwnerId,
    pub(super) token: FencingToken,
    /// The key of the advisory lock.
    pub(super) key: i64,
    /// The table that tells of holds.
    pub(super) table: String,
}

impl Held {
    /// The condition of the row that tells of it.
    fn row(&self) -> String {
        rows::held(&self.name, self.owner, self.token)
    }
}

/// What the holder wants.
pub(super) enum Command {
    Extend(Ttl, oneshot::Sender<Result<Extension, BackendError>>),
    Release(oneshot::Sender<Result<Release, BackendError>>),
}

/// Owns the connection. Its end, by return or by abort, closes the connection and so frees the lock,
/// unless the lock was freed before.
pub(super) struct SessionTask {
    held: Held,
    connection: PgConnection,
    /// Whether an answer is still to be read that did not come in time.
    unread: bool,
    spares: Arc<Connections>,
    /// When the hold is over unless it is extended.
    ends_at: Instant,
}

/// What a look or a command came to.
enum Step {
    GoOn,
    /// The hold is over, and the session may live.
    HoldOver,
    /// The session is over.
    SessionOver(LostReason),
}

impl SessionTask {
    pub(super) fn new(
        held: Held,
        ttl: Ttl,
        connection: PgConnection,
        spares: Arc<Connections>,
    ) -> Self {
        let ends_at = Instant::now() + ttl.as_duration();
        Self { held, connection, unread: false, spares, ends_at }
    }

    /// Looks after the session until the hold is over, and says how it ended.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) -> LostReason {
        loop {
            let next_look = self.ends_at.min(Instant::now() + LOOK_EVERY);
            tokio::select! {
                command = commands.recv() => match command {
                    None => return LostReason::Shutdown,
                    Some(Command::Release(reply)) => {
                        let _ = reply.send(self.release().await);
                        return LostReason::Released;
                    }
                    Some(Command::Extend(ttl, reply)) => {
                        let extended = self.extend(ttl).await;
                        if matches!(extended, Ok(Extension::Lost)) {
                            let reason = self.end().await;
                            let _ = reply.send(extended);
                            return reason;
                        }
                        let _ = reply.send(extended);
                    }
                },
                () = sleep_until(next_look) => match self.look().await {
                    Step::GoOn => {}
                    Step::HoldOver => return self.end().await,
                    Step::SessionOver(reason) => return reason,
                },
            }
        }
    }

    /// Extends the hold in its row, and lets the server wait as long for us.
    async fn extend(&mut self, ttl: Ttl) -> Result<Extension, BackendError> {
        let (millis, set_idle_timeout) = (ttl.as_millis(), set_idle_timeout(ttl));
        let sql = format!(
            "UPDATE {} l SET expires_at = greatest(l.expires_at, \
             clock_timestamp() + ({millis}) * interval '1 millisecond') \
             WHERE {} AND {NOT_OVER} RETURNING 1; SELECT {set_idle_timeout}",
            self.held.table,
            self.held.row(),
        );
        // Two rows: the extended one, and the setting.
        match self.request(&sql).await {
            Ok(rows) if rows.len() == 2 => {
                self.ends_at = self.ends_at.max(Instant::now() + ttl.as_duration());
                Ok(Extension::Extended(ttl.as_duration()))
            }
            Ok(_) => Ok(Extension::Lost),
            Err(error) if ends_session(&error) => Ok(Extension::Lost),
            Err(error) => Err(classify(error)),
        }
    }

    /// Asks whether the hold lasts.
    async fn look(&mut self) -> Step {
        match self.time_left().await {
            Ok(Some(left)) => {
                self.ends_at = Instant::now() + left;
                Step::GoOn
            }
            Ok(None) => Step::HoldOver,
            Err(error) if ends_session(&error) => Step::SessionOver(self.reason().await),
            // C8: no answer is no end: it looks again.
            Err(_) if Instant::now() < self.ends_at => Step::GoOn,
            Err(_) => Step::SessionOver(LostReason::Expired),
        }
    }

    /// How long the hold lasts; `None` if it is over or not ours.
    async fn time_left(&mut self) -> Result<Option<Duration>, RequestError> {
        let sql = format!(
            "SELECT (extract(epoch FROM l.expires_at - clock_timestamp()) * 1000000)::bigint \
             FROM {} l WHERE {} AND {NOT_OVER}",
            self.held.table,
            self.held.row(),
        );
        let rows = self.request(&sql).await?;
        let left = rows.first().map(|row| row.try_get::<i64, _>(0)).transpose();
        Ok(left.map_err(RequestError::Execute)?.map(micros))
    }

    /// Frees the lock, and leaves the connection to others if the server says that it is free.
    async fn release(mut self) -> Result<Release, BackendError> {
        let sql = format!(
            "UPDATE {} l SET owner = NULL, label = '', expires_at = '-infinity' \
             WHERE {}; SELECT {NO_IDLE_TIMEOUT}, pg_advisory_unlock(({})::bigint)",
            self.held.table,
            self.held.row(),
            self.held.key,
        );
        match self.request(&sql).await {
            Ok(rows) if freed(&rows) => {
                self.spares.put_back(self.connection);
                Ok(Release::Released)
            }
            Ok(_) => Err(unreadable("the answer to an unlock")),
            Err(error) if ends_session(&error) => Ok(Release::NotHeld),
            Err(error) => Err(classify(error)),
        }
    }

    /// Frees the lock and says how the hold ended, so that the holder, once told, finds the lock free.
    /// If the server does not answer soon, the end of the connection frees it.
    async fn end(self) -> LostReason {
        let reason = self.reason().await;
        let _ = timeout(TELL_WITHIN, self.release()).await;
        reason
    }

    /// How the hold ended. An eviction has taken the owner out of the row; one that is not yet committed
    /// is waited for.
    async fn reason(&self) -> LostReason {
        let sql =
            format!("SELECT 1 FROM {} l WHERE {} FOR SHARE", self.held.table, self.held.row());
        match timeout(TELL_WITHIN, self.spares.request(&sql)).await {
            Ok(Ok(rows)) if rows.is_empty() => LostReason::Evicted,
            _ => LostReason::Disconnected,
        }
    }

    async fn request(&mut self, sql: &str) -> Result<Vec<PgRow>, RequestError> {
        let silent = || std::io::Error::from(std::io::ErrorKind::TimedOut).into();
        let answer = timeout(ANSWER_LIMIT, self.request_in_turn(sql)).await;
        self.unread = answer.is_err();
        answer.unwrap_or_else(|_| Err(silent())).map_err(RequestError::Execute)
    }

    async fn request_in_turn(&mut self, sql: &str) -> Result<Vec<PgRow>, sqlx::Error> {
        if self.unread {
            read_to_the_end(&mut self.connection).await?;
        }
        send(&mut self.connection, Form::Prepared, &Request::Plain(sql)).await
    }
}

fn freed(rows: &[PgRow]) -> bool {
    rows.last().is_some_and(|row| row.try_get(1).unwrap_or(false))
}

/// The server ends a session that was silent for the TTL and a second: its process is stopped, or its
/// machine is gone. Servers before 14 cannot.
pub(super) fn set_idle_timeout(ttl: Ttl) -> String {
    NO_IDLE_TIMEOUT.replace("'0'", &format!("'{}'", ttl.as_millis() + 1000))
}

const NO_IDLE_TIMEOUT: &str = "CASE WHEN current_setting('server_version_num')::int >= 140000 \
    THEN set_config('idle_session_timeout', '0', false) ELSE '' END";
