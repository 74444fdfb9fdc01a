//! The server, as the rest of the crate talks to it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::{BackendError, LockError};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Executor, PgConnection, Row};

use crate::connections::Connections;
use crate::error::Failure;
use crate::options::PostgresOptions;
use crate::reply;
use crate::schema::Place;
use crate::sql::Call;

/// A server's clock further ahead than this would poison the tokens.
const CLOCK_AHEAD_ALLOWED: Duration = Duration::from_secs(24 * 60 * 60);

/// How often two connections are compared to see whether they share a session.
/// An idle pooler shows it at once, one that is busy with others by and by.
const COMPARISONS: usize = 6;

/// One database and the place of our locks in it. Clones share their connections.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) connections: Arc<Connections>,
    pub(crate) place: Place,
    trusts_any_clock: bool,
}

impl Server {
    pub(crate) fn new(options: &PostgresOptions) -> Result<Self, LockError> {
        let settings = options.read()?;
        let connections = Arc::new(Connections::new(settings.server, options.connections));
        let trusts_any_clock = options.trusts_any_clock;
        Ok(Self { connections, place: settings.place, trusts_any_clock })
    }

    /// A call of one of our functions.
    pub(crate) fn call(&self, function: &str) -> Call {
        Call::new(&self.place.function(function))
    }

    pub(crate) async fn rows(&self, request: String) -> Result<Vec<PgRow>, BackendError> {
        Ok(self.connections.ask(&request).await?)
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
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        match self.trusts_any_clock {
            true => i64::MAX,
            false => i64::try_from((now + CLOCK_AHEAD_ALLOWED).as_micros()).unwrap_or(i64::MAX),
        }
    }

    /// Makes the schema, unless it is there.
    pub(crate) async fn ensure_schema(&self) -> Result<(), LockError> {
        // What the script makes last.
        let last = self.place.function("advance");
        let request = format!("SELECT to_regproc('{last}') IS NOT NULL");
        let rows = self.connections.ask(&request).await?;
        match rows.first().is_some_and(|row| row.try_get(0).unwrap_or(false)) {
            true => Ok(()),
            false => self.migrate().await,
        }
    }

    /// Makes the schema, or what of it is missing.
    pub(crate) async fn migrate(&self) -> Result<(), LockError> {
        self.connections.run_apart(&self.place.ddl()).await.map_err(|failure| {
            match failure.code().as_deref() {
                Some("42501" | "25006") => LockError::Config {
                    message: "the schema of the locks is missing, and this user cannot make it \
                              here: run what `leasehold schema postgres` prints, as its owner"
                        .to_owned(),
                },
                _ => failure.into(),
            }
        })
    }

    /// Whether two connections of ours share a session: a pooler by transaction is between, which
    /// keeps no lock of a session, and delivers no notification.
    pub(crate) async fn is_pooled(&self) -> Result<bool, Failure> {
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
async fn session_of(connection: &mut PgConnection) -> Result<i32, Failure> {
    let request = sqlx::raw_sql(AssertSqlSafe("SELECT pg_backend_pid()"));
    let row = connection.fetch_one(request).await.map_err(Failure::Asking)?;
    row.try_get(0).map_err(Failure::Asking)
}
