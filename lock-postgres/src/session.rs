//! One advisory lock that is held, and the session of the server that holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::backend::{Extension, Release};
use lock_core::{BackendError, FencingToken, LostReason, OwnerId, Ttl};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::connections::{Connections, ask_on, read_to_the_end};
use crate::error::{RequestError, classify, ends_session, unreadable};
use crate::holds::{self, NOT_OVER};

/// How often to ask whether the session still lives and the hold is still ours.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long the server may take to answer what is asked of a hold.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// What is done before a loss is told may delay it for so long.
const TELL_WITHIN: Duration = Duration::from_millis(100);

/// Which lock, in which row, by whom.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) name: lock_core::LockName,
    pub(crate) owner: OwnerId,
    pub(crate) token: FencingToken,
    /// The key of the advisory lock.
    pub(crate) key: i64,
    /// The table that tells of holds.
    pub(crate) table: String,
}

impl Held {
    /// The condition of the row that tells of it.
    fn row(&self) -> String {
        holds::held(&self.name, self.owner, self.token)
    }
}

/// The handle of a held session. Dropping it ends the session, and with it the hold.
pub(crate) struct Session {
    pub(crate) held: Held,
    /// Whether its holder was heard of since the grant.
    claimed: AtomicBool,
    commands: mpsc::Sender<Command>,
    ended: watch::Receiver<Option<LostReason>>,
    task: JoinHandle<()>,
}

enum Command {
    Extend(Ttl, oneshot::Sender<Result<Extension, BackendError>>),
    Release(oneshot::Sender<Result<Release, BackendError>>),
}

impl Session {
    /// Keeps the session that holds the lock, on the current runtime.
    pub(crate) fn keep(
        held: Held,
        ttl: Ttl,
        connection: PgConnection,
        spares: Arc<Connections>,
    ) -> Self {
        let (commands, receiver) = mpsc::channel(16);
        let (end, ended) = watch::channel(None);
        let ends_at = Instant::now() + ttl.as_duration();
        let keeper = Keeper { held: held.clone(), connection, unread: false, spares, ends_at };
        let task = tokio::spawn(async move {
            let reason = keeper.run(receiver).await;
            end.send_replace(Some(reason));
        });
        Self { held, claimed: AtomicBool::new(false), commands, ended, task }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ended.borrow().is_some() || self.task.is_finished()
    }

    pub(crate) fn is_claimed(&self) -> bool {
        self.claimed.load(Ordering::Relaxed)
    }

    /// Completes when the hold is over.
    pub(crate) fn watch(&self) -> impl Future<Output = LostReason> + Send + 'static {
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

    pub(crate) async fn extend(&self, ttl: Ttl) -> Result<Extension, BackendError> {
        self.claimed.store(true, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        // A session that is over hears nothing any more.
        let _ = self.commands.send(Command::Extend(ttl, reply)).await;
        answer.await.unwrap_or(Ok(Extension::Lost))
    }

    pub(crate) async fn release(&self) -> Result<Release, BackendError> {
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

/// Owns the connection. Whatever ends it, by return or by abort, closes the connection and so frees
/// the lock, unless it was freed before.
struct Keeper {
    held: Held,
    connection: PgConnection,
    /// Whether an answer is still to be read that did not come in time.
    unread: bool,
    spares: Arc<Connections>,
    /// When the hold is over unless it is extended.
    ends_at: Instant,
}

impl Keeper {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>) -> LostReason {
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    None => return LostReason::Shutdown,
                    Some(Command::Extend(ttl, reply)) => {
                        let extended = self.extend(ttl).await;
                        if matches!(extended, Ok(Extension::Lost)) {
                            let reason = self.end().await;
                            let _ = reply.send(extended);
                            return reason;
                        }
                        let _ = reply.send(extended);
                    }
                    Some(Command::Release(reply)) => {
                        let _ = reply.send(self.release().await);
                        return LostReason::Released;
                    }
                },
                () = sleep_until(self.ends_at.min(Instant::now() + LOOK_EVERY)) => {
                    match self.look().await {
                        Ok(Some(left)) => self.ends_at = Instant::now() + left,
                        Ok(None) => return self.end().await,
                        Err(failure) if ends_session(&failure) => return self.reason().await,
                        // No answer is no end: it looks again.
                        Err(_) if Instant::now() < self.ends_at => {}
                        Err(_) => return LostReason::Expired,
                    }
                }
            }
        }
    }

    /// Extends the hold in its row, and lets the server wait as long for us.
    async fn extend(&mut self, ttl: Ttl) -> Result<Extension, BackendError> {
        let (millis, idle_timeout) = (ttl.as_millis(), idle_timeout(ttl));
        let request = format!(
            "UPDATE {} l SET expires_at = greatest(l.expires_at, \
             clock_timestamp() + ({millis}) * interval '1 millisecond') \
             WHERE {} AND {NOT_OVER} RETURNING 1; SELECT {idle_timeout}",
            self.held.table,
            self.held.row(),
        );
        // Two rows: the extended one, and the setting.
        match self.ask(&request).await {
            Ok(rows) if rows.len() == 2 => {
                self.ends_at = self.ends_at.max(Instant::now() + ttl.as_duration());
                Ok(Extension::Extended(ttl.as_duration()))
            }
            Ok(_) => Ok(Extension::Lost),
            Err(failure) if ends_session(&failure) => Ok(Extension::Lost),
            Err(failure) => Err(classify(failure)),
        }
    }

    /// How long the hold lasts; `None` if it is over or not ours.
    async fn look(&mut self) -> Result<Option<Duration>, RequestError> {
        let request = format!(
            "SELECT (extract(epoch FROM l.expires_at - clock_timestamp()) * 1000000)::bigint \
             FROM {} l WHERE {} AND {NOT_OVER}",
            self.held.table,
            self.held.row(),
        );
        let rows = self.ask(&request).await?;
        let left = rows.first().map(|row| row.try_get::<i64, _>(0)).transpose();
        Ok(left.map_err(RequestError::Execute)?.map(crate::reply::micros))
    }

    /// Frees the lock, and leaves the connection to others if the server says that it is free.
    async fn release(mut self) -> Result<Release, BackendError> {
        let request = format!(
            "UPDATE {} l SET owner = NULL, label = '', expires_at = '-infinity' \
             WHERE {}; SELECT {}, pg_advisory_unlock(({})::bigint)",
            self.held.table,
            self.held.row(),
            NO_PATIENCE,
            self.held.key,
        );
        match self.ask(&request).await {
            Ok(rows) if freed(&rows) => {
                self.spares.put_back(self.connection);
                Ok(Release::Released)
            }
            Ok(_) => Err(unreadable("the answer to an unlock")),
            Err(failure) if ends_session(&failure) => Ok(Release::NotHeld),
            Err(failure) => Err(classify(failure)),
        }
    }

    /// Frees the lock and says how the hold came to its end: whoever hears of that finds it free. If
    /// the server does not answer soon, the end of the connection frees it.
    async fn end(self) -> LostReason {
        let reason = self.reason().await;
        let _ = timeout(TELL_WITHIN, self.release()).await;
        reason
    }

    /// How the hold came to its end. Whoever ended it has taken its owner out of the row, and is waited
    /// for if that is not yet committed.
    async fn reason(&self) -> LostReason {
        let request =
            format!("SELECT 1 FROM {} l WHERE {} FOR SHARE", self.held.table, self.held.row());
        match timeout(TELL_WITHIN, self.spares.ask(&request)).await {
            Ok(Ok(rows)) if rows.is_empty() => LostReason::Evicted,
            _ => LostReason::Disconnected,
        }
    }

    async fn ask(&mut self, request: &str) -> Result<Vec<PgRow>, RequestError> {
        let silent = || std::io::Error::from(std::io::ErrorKind::TimedOut).into();
        let answer = timeout(ANSWER_LIMIT, self.ask_in_turn(request)).await;
        self.unread = answer.is_err();
        answer.unwrap_or_else(|_| Err(silent())).map_err(RequestError::Execute)
    }

    async fn ask_in_turn(&mut self, request: &str) -> Result<Vec<PgRow>, sqlx::Error> {
        if self.unread {
            read_to_the_end(&mut self.connection).await?;
        }
        ask_on(&mut self.connection, request).await
    }
}

fn freed(rows: &[PgRow]) -> bool {
    rows.last().is_some_and(|row| row.try_get(1).unwrap_or(false))
}

/// The server ends a session that was silent for the TTL and a second: its process is stopped, or its
/// machine is gone. Servers before 14 cannot.
pub(crate) fn idle_timeout(ttl: Ttl) -> String {
    set_idle_timeout(ttl.as_millis() + 1000)
}

const NO_PATIENCE: &str = "CASE WHEN current_setting('server_version_num')::int >= 140000 \
    THEN set_config('idle_session_timeout', '0', false) ELSE '' END";

fn set_idle_timeout(millis: u64) -> String {
    NO_PATIENCE.replace("'0'", &format!("'{millis}'"))
}
