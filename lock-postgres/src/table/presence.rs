//! The session by which the server sees that this client lives, for holds that end with its connection.
//!
//! The session has an advisory lock, whose key stands beside each hold. The server ends a hold [`SESSION_GRACE`]
//! after it sees that no session has that lock. The client gives its holds up when the session ends or is silent
//! for [`SILENCE`]: before anybody else is let in (P2).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::WAITER_LIVENESS;
use lock_core::{BackendError, LostReason, Outcome, OwnerId, Ttl};
use parking_lot::Mutex;
use sqlx::postgres::{PgConnectOptions, PgListener};
use sqlx::{AssertSqlSafe, Connection, Error, Executor};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::connections::CONNECT_LIMIT;
use crate::error::{BACKEND, RequestError};
use crate::session::{KEEP_ALIVE, listening};

/// A hold lasts this long after the server saw that its client's session is gone.
pub(crate) const SESSION_GRACE: Duration = Duration::from_secs(3);

/// After this much silence of the session its holds are given up.
const SILENCE: Duration = Duration::from_millis(2500);

/// Interval of requests for a sign of life. The end of a connection is seen at once.
const PING_EVERY: Duration = Duration::from_secs(1);

/// Pause before the session is opened again.
const REOPEN_AFTER: Duration = Duration::from_millis(200);

/// No statement of the session ends by a time-out.
const SETTINGS: &str = "SET search_path = pg_catalog, pg_temp; \
    SET statement_timeout = 0; SET lock_timeout = 0; ";

/// Keeps a session, and opens another when it ends.
pub(super) struct Presence {
    current: watch::Receiver<Option<Arc<Session>>>,
    task: JoinHandle<()>,
}

/// One session, and the owners whose holds end with it.
pub(super) struct Session {
    /// Key of its advisory lock.
    pub(super) key: i64,
    /// End of each owner's hold, unless it is extended.
    owners: Mutex<HashMap<OwnerId, Instant>>,
}

impl Presence {
    /// Opens the first session.
    pub(super) async fn open(options: PgConnectOptions) -> Result<Self, RequestError> {
        let first = open(&options).await?;
        let (told, current) = watch::channel(None);
        Ok(Self { current, task: tokio::spawn(keep(options, first, told)) })
    }

    /// Returns the open session; waits a while for one.
    pub(super) async fn session(&self) -> Result<Arc<Session>, BackendError> {
        let mut current = self.current.clone();
        let open = timeout(CONNECT_LIMIT, current.wait_for(Option::is_some)).await;
        let open = open.ok().and_then(Result::ok).and_then(|open| open.clone());
        open.ok_or_else(|| gone(Outcome::NotApplied))
    }

    /// Succeeds if the session is still open.
    ///
    /// # Errors
    /// If it is not, the answer to a request for this session does not count: its hold ends.
    pub(super) fn confirm(&self, session: &Arc<Session>) -> Result<(), BackendError> {
        match is(self.current.borrow().as_ref(), session) {
            true => Ok(()),
            false => Err(gone(Outcome::Unknown)),
        }
    }

    /// Forgets an owner that holds nothing any more.
    pub(super) fn forget(&self, owner: OwnerId) {
        if let Some(session) = self.current.borrow().as_ref() {
            session.owners.lock().remove(&owner);
        }
    }

    /// Completes when the hold of this owner is over with its session (C8).
    pub(super) fn watch(
        &self,
        owner: OwnerId,
    ) -> impl Future<Output = LostReason> + Send + use<> + 'static {
        let mut current = self.current.clone();
        let session =
            current.borrow().clone().filter(|open| open.owners.lock().contains_key(&owner));
        async move {
            if let Some(session) = session {
                _ = current.wait_for(|open| !is(open.as_ref(), &session)).await;
            }
            LostReason::Disconnected
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Session {
    /// Notes that a hold of this owner ends with the session. Call it before the request, since a grant may be
    /// pushed before the answer arrives.
    pub(super) fn bind(&self, owner: OwnerId, ttl: Ttl) {
        let (now, mut owners) = (Instant::now(), self.owners.lock());
        // R4: removes expired owners before the map grows.
        if owners.len() == owners.capacity() {
            owners.retain(|_, ends_at| *ends_at > now);
        }
        // The hold of a waiter with a short TTL is pushed later than its TTL after the last request.
        owners.insert(owner, now + ttl.as_duration().max(WAITER_LIVENESS));
    }
}

fn is(open: Option<&Arc<Session>>, session: &Arc<Session>) -> bool {
    open.is_some_and(|open| Arc::ptr_eq(open, session))
}

fn gone(outcome: Outcome) -> BackendError {
    BackendError::transient(
        BACKEND,
        outcome,
        "the session with which holds end is not open",
        "it is opened again",
    )
}

/// An open session.
struct OpenSession {
    listener: PgListener,
    key: i64,
    /// Time of its last sign of life.
    alive_at: Instant,
}

async fn open(options: &PgConnectOptions) -> Result<OpenSession, RequestError> {
    let alive_at = Instant::now();
    let key = uuid::Uuid::new_v4().as_u64_pair().0.cast_signed();
    let opened = timeout(CONNECT_LIMIT, async {
        let mut listener = listening(options).await?;
        let begin =
            format!("{KEEP_ALIVE}{SETTINGS}SELECT FROM pg_try_advisory_lock(({key})::bigint)");
        listener.fetch_one(sqlx::raw_sql(AssertSqlSafe(begin))).await?;
        Ok(OpenSession { listener, key, alive_at })
    });
    let timed_out = |_| Err(Error::from(std::io::Error::from(std::io::ErrorKind::TimedOut)));
    opened.await.unwrap_or_else(timed_out).map_err(RequestError::Connect)
}

/// Keeps a session open for as long as a client may use it.
async fn keep(
    options: PgConnectOptions,
    first: OpenSession,
    told: watch::Sender<Option<Arc<Session>>>,
) {
    let mut next = Ok(first);
    loop {
        if let Ok(session) = next {
            let owners = Mutex::default();
            told.send_replace(Some(Arc::new(Session { key: session.key, owners })));
            session.until_over().await;
            told.send_replace(None);
        }
        sleep(REOPEN_AFTER).await;
        next = open(&options).await;
    }
}

impl OpenSession {
    /// Returns when the session has ended, or was silent for too long.
    async fn until_over(mut self) {
        loop {
            tokio::select! {
                () = ended(&mut self.listener) => return,
                () = sleep_until(self.alive_at + PING_EVERY) => {}
            }
            let asked = Instant::now();
            match timeout_at(self.alive_at + SILENCE, ping(&mut self.listener)).await {
                Ok(Ok(())) => self.alive_at = asked,
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }
}

/// Completes when the connection ends.
async fn ended(listener: &mut PgListener) {
    while let Ok(Some(_)) = listener.try_recv().await {}
}

/// Asks for a sign of life. Reads no table, since another transaction may have locked it.
async fn ping(listener: &mut PgListener) -> Result<(), Error> {
    sqlx::Acquire::acquire(listener).await?.ping().await
}
