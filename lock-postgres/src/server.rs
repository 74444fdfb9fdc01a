//! The server, as the rest of the crate talks to it.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::ClockLimit;
use lock_core::{BackendError, LockError, Outcome};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Executor, PgConnection, Row};
use tokio::time::{Instant, timeout_at};

use crate::connections::Connections;
use crate::error::{BACKEND, RequestError, classify, code_of, not_connected};
use crate::options::PostgresOptions;
use crate::reply;
use crate::schema::Place;
use crate::sql::Call;

/// How long it may take to connect, or to make the schema, which gives up its own waits before.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// How often two connections are compared to see whether they share a session.
/// An idle pooler shows it at once, one that is busy with others by and by.
const COMPARISONS: usize = 6;

/// One database and the place of our locks in it. Clones share their connections.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) connections: Arc<Connections>,
    pub(crate) place: Place,
    clock: ClockLimit,
}

impl Server {
    pub(crate) fn new(options: &PostgresOptions) -> Result<Self, LockError> {
        let settings = options.read()?;
        let connections = Arc::new(Connections::new(settings.server, options.connections));
        Ok(Self { connections, place: settings.place, clock: options.clock })
    }

    /// A call of one of our functions.
    pub(crate) fn call(&self, function: &str) -> Call {
        Call::new(&self.place.function(function))
    }

    pub(crate) async fn rows(&self, request: String) -> Result<Vec<PgRow>, BackendError> {
        self.connections.ask(&request).await.map_err(classify)
    }

    /// Sends a request whose answer is one row.
    pub(crate) async fn row(
        &self,
        request: String,
        what: &'static str,
    ) -> Result<PgRow, BackendError> {
        reply::only(self.rows(request).await?, what)
    }

    /// The latest server time that a grant may be made at, in µs.
    pub(crate) fn clock_limit(&self) -> i64 {
        let limit = self.clock.micros();
        limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX)
    }

    /// Makes the schema, unless it is there.
    pub(crate) async fn ensure_schema(&self, end: Instant) -> Result<(), LockError> {
        let looking = async { self.connections.ask(&self.probe()).await.map_err(not_connected) };
        match is_true(&by(end, "looking for the schema of the locks", looking).await?) {
            true => Ok(()),
            false => by(end, MAKING, self.make_schema(true)).await,
        }
    }

    /// Makes the schema, or what of it is missing.
    pub(crate) async fn migrate(&self) -> Result<(), LockError> {
        by(end_of_connecting(), MAKING, self.make_schema(false)).await
    }

    /// Asks whether the schema is there, by what is made last.
    fn probe(&self) -> String {
        format!("SELECT to_regproc('{}') IS NOT NULL", self.place.function("advance"))
    }

    /// If another makes it meanwhile, there may be nothing left to do, and nothing that we may do.
    async fn make_schema(&self, unless_there: bool) -> Result<(), LockError> {
        let mut connection = self.connections.open().await.map_err(not_connected)?;
        let mut run = async |script: String| {
            let rows = connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(script))).await;
            rows.map_err(|error| not_made(RequestError::Execute(error)))
        };
        let [begin, rest] = self.place.migration();
        run(begin).await?;
        if unless_there && is_true(&run(self.probe()).await?) {
            return Ok(());
        }
        run(rest).await.map(drop)
    }

    /// Whether the server is a standby.
    pub(crate) async fn is_standby(&self, end: Instant) -> Result<bool, LockError> {
        let asking = async {
            let asked = self.connections.ask("SELECT pg_is_in_recovery()").await;
            asked.map_err(not_connected)
        };
        Ok(is_true(&by(end, "asking whether the server is a standby", asking).await?))
    }

    /// Whether two connections of ours share a session: a pooler by transaction is between, which
    /// keeps no lock of a session, and delivers no notification.
    pub(crate) async fn is_pooled(&self, end: Instant) -> Result<bool, LockError> {
        by(end, "looking for a pooler", async {
            self.share_sessions().await.map_err(not_connected)
        })
        .await
    }

    async fn share_sessions(&self) -> Result<bool, RequestError> {
        let (mut one, mut other) =
            tokio::try_join!(self.connections.open(), self.connections.open())?;
        let mut first = None;
        for _ in 0..COMPARISONS {
            let (mine, others) = (session_of(&mut one).await?, session_of(&mut other).await?);
            if mine == others || *first.get_or_insert(mine) != mine {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The process of the server that serves a connection.
async fn session_of(connection: &mut PgConnection) -> Result<i32, RequestError> {
    let request = sqlx::raw_sql(AssertSqlSafe("SELECT pg_backend_pid()"));
    let row = connection.fetch_one(request).await.map_err(RequestError::Execute)?;
    row.try_get(0).map_err(RequestError::Execute)
}

fn is_true(rows: &[PgRow]) -> bool {
    rows.first().is_some_and(|row| row.try_get(0).unwrap_or(false))
}

const MAKING: &str = "making the schema of the locks";

/// When a connecting that begins now is given up.
pub(crate) fn end_of_connecting() -> Instant {
    Instant::now() + CONNECT_WITHIN
}

/// Bounds a step of connecting.
async fn by<T>(
    end: Instant,
    what: &str,
    step: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    timeout_at(end, step).await.unwrap_or_else(|_| {
        let context = format!("no answer within {CONNECT_WITHIN:?}, {what}");
        Err(failed(BackendError::transient(BACKEND, Outcome::Unknown, context, "it is silent")))
    })
}

fn not_made(failure: RequestError) -> LockError {
    match code_of(&failure).as_deref() {
        Some("42501" | "25006") => LockError::Config {
            message: "the schema of the locks is missing, and this user cannot make it here: run \
                      what `leasehold schema postgres` prints, as its owner"
                .to_owned(),
        },
        // What it waits for is the migration of another, or a use of what it would change.
        Some("55P03" | "57014") => {
            let context = "others kept us from making the schema of the locks for too long";
            let code = code_of(&failure).unwrap_or_default();
            failed(BackendError::transient(BACKEND, Outcome::NotApplied, context, code))
        }
        _ => not_connected(failure),
    }
}

fn failed(source: BackendError) -> LockError {
    LockError::Backend { operation: "connect", name: None, source }
}
