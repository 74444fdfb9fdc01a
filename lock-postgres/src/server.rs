//! The server, for the rest of the crate.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::ClockLimit;
use lock_core::{BackendError, LockError, Outcome};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Executor, PgConnection, Row};
use tokio::time::{Instant, timeout, timeout_at};

use crate::connections::{Connections, SUSPECT_AFTER};
use crate::error::{
    BACKEND, NOT_OURS, READ_ONLY, RequestError, classify, code_of, failed, may_follow_a_commit,
    message_of, not_connected, refused,
};
use crate::opener::Opener;
use crate::options::{PostgresOptions, Settings};
use crate::reply;
use crate::schema::{self, Found, TableNames};
use crate::sql::Call;
use crate::transaction::Form;

/// Longest time to connect, or to make the schema. A migration gives up its own waits sooner.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Number of looks at two connections, to see that each has its own session. An idle pooler shows at the first
/// look; a busy pooler shows after a few.
const LOOKS: usize = 4;

/// Oldest version that keeps values of statements out of the log, and has all features that the functions use.
const OLDEST: u32 = 13;

/// One in this many releases and withdrawals forgets what nobody needs.
const CALLS_A_FORGETTING: u64 = 64;

/// One database, and the tables of the locks in it. Clones share their connections.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) connections: Arc<Connections>,
    pub(crate) names: TableNames,
    clock: ClockLimit,
}

impl Server {
    /// Connects, detects a pooler, and makes the schema if it is missing.
    pub(crate) async fn connect(
        options: &PostgresOptions,
        settings: &Settings,
    ) -> Result<Self, LockError> {
        let end = end_of_connecting();
        let opener = Opener::new(settings.server.clone(), options.login.clone());
        let form = by(end, "looking for a pooler", form_for(opener.clone())).await?;
        let connections = Connections::new(opener, form, options.connections);
        let (connections, names) = (Arc::new(connections), settings.names.clone());
        let server = Self { connections, names, clock: options.clock };
        server.ensure_schema(end).await?;
        Ok(server)
    }

    /// Creates a call of a function of the schema.
    pub(crate) fn call(&self, function: &str) -> Call {
        Call::new(self.names.function(function))
    }

    /// Makes a call whose answer may be any number of rows.
    pub(crate) async fn rows(&self, call: &Call) -> Result<Vec<PgRow>, BackendError> {
        self.connections.call(call).await.map_err(|error| {
            // C15: it may have been carried out before the error.
            let may_be_done = call.commits() && may_follow_a_commit(&error);
            let error = self.failed(error);
            if may_be_done { error.of_unknown_outcome() } else { error }
        })
    }

    /// Makes a call whose answer is one row.
    pub(crate) async fn row(&self, call: &Call, what: &'static str) -> Result<PgRow, BackendError> {
        reply::only(self.rows(call).await?, what)
    }

    /// Makes a call that renews holds.
    pub(crate) async fn renew(&self, call: &Call) -> Result<PgRow, BackendError> {
        let rows = self.connections.renew(call).await;
        reply::only(rows.map_err(|error| self.failed(error))?, "renewals")
    }

    /// Sends a text that holds no owner id.
    pub(crate) async fn ask(&self, sql: &str) -> Result<Vec<PgRow>, BackendError> {
        self.connections.request(sql).await.map_err(|error| self.failed(error))
    }

    /// Classifies the error of a request. A failure that may pass names the server.
    pub(crate) fn failed(&self, error: RequestError) -> BackendError {
        let error = classify(error);
        match error.is_transient() {
            true => error.at(&self.connections.opener.address()),
            false => error,
        }
    }

    /// Returns the latest server time for a grant, in µs.
    pub(crate) fn clock_limit(&self) -> i64 {
        let limit = self.clock.micros();
        limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX)
    }

    /// Makes the schema if it is missing.
    async fn ensure_schema(&self, end: Instant) -> Result<(), LockError> {
        let looking = async { self.found().await.map_err(not_connected) };
        let found = by(end, LOOKING, looking).await?;
        if found.is_usable()? {
            return Ok(());
        }
        by(end, MAKING, self.make_schema(Made::UnlessThere)).await?;
        let looking = async { self.found().await.map_err(not_connected) };
        by(end, LOOKING, looking).await?.is_usable().map(drop)
    }

    /// Reads the state of the schema, and the rights of the user.
    pub(crate) async fn found(&self) -> Result<Found, RequestError> {
        let rows = self.connections.request(&Found::question(&self.names)).await?;
        self.read_found(&rows)
    }

    fn read_found(&self, rows: &[PgRow]) -> Result<Found, RequestError> {
        let row = rows.first().ok_or(sqlx::Error::RowNotFound);
        row.and_then(|row| Found::read(&self.names, row)).map_err(RequestError::Execute)
    }

    /// Makes the server forget old marks, records and waiters, and some locks that nobody used for a week, in one of
    /// [`CALLS_A_FORGETTING`] calls. A later call makes up for one that fails. The server completes a call that is not
    /// awaited. It is a transaction of its own, so that no lock's row is locked meanwhile.
    ///
    /// Each call may stand for a new name. One look covers a page, which has more names than that, so that names
    /// do not pile up. Nor do marks and records, of which a call forgets up to a thousand each.
    pub(crate) async fn forget_now_and_then(&self) {
        if uuid::Uuid::new_v4().as_u64_pair().1.is_multiple_of(CALLS_A_FORGETTING) {
            _ = timeout(SUSPECT_AFTER / 2, self.rows(&self.call("forget_unused"))).await;
        }
    }

    /// Makes the schema, or its missing parts.
    pub(crate) async fn migrate(&self) -> Result<(), LockError> {
        by(end_of_connecting(), MAKING, self.make_schema(Made::Anyway)).await
    }

    async fn make_schema(&self, made: Made) -> Result<(), LockError> {
        let mut connection = self.connections.open().await.map_err(not_connected)?;
        let mut run = async |script: String| {
            let rows = connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(script))).await;
            rows.map_err(|error| not_made(RequestError::Execute(error)))
        };
        let [begin, rest] = schema::migration(&self.names);
        run(begin).await?;
        // Another client may have made it during the wait. Then nothing may be left to do, or to be allowed to
        // do.
        if made == Made::UnlessThere {
            let found = self.read_found(&run(Found::question(&self.names)).await?);
            if found.map_err(not_made)?.is_usable()? {
                return Ok(());
            }
        }
        run(rest).await.map(drop)
    }

    /// Returns true if each connection has a session of its own.
    pub(crate) fn is_direct(&self) -> bool {
        self.connections.form() == Form::Prepared
    }
}

/// Returns the form of requests for this server: prepared if each of two connections has its own session.
/// Otherwise a pooler gives each transaction another session: no lock, setting or prepared statement lasts, and
/// no notification arrives. Until that is certain nothing is set or prepared, since another application may have
/// the session at the next request.
async fn form_for(opener: Opener) -> Result<Form, LockError> {
    let connections = Connections::new(opener, Form::Text, 2);
    let opened = tokio::try_join!(connections.open(), connections.open());
    let (mut one, mut other) = opened.map_err(not_connected)?;
    refuse_foreign(&mut one).await?;
    is_direct(&mut one, &mut other).await.map_err(not_connected)
}

/// Refuses servers that are too old, and other products that speak the protocol of Postgres: their advisory
/// locks, notifications and row locks do not behave as the locks need.
async fn refuse_foreign(connection: &mut PgConnection) -> Result<(), LockError> {
    let row = connection.fetch_one(sqlx::raw_sql("SELECT pg_catalog.version()")).await;
    let version = row.and_then(|row| row.try_get::<String, _>(0));
    let version = version.map_err(|error| not_connected(RequestError::Execute(error)))?;
    let message = match FOREIGN.iter().find(|(mark, _)| version.contains(mark)) {
        Some((_, product)) => {
            format!(
                "the server is {product}, which does not keep locks as Postgres does: connect to Postgres"
            )
        }
        None if major(&version).is_some_and(|major| major < OLDEST) => {
            format!(
                "the server is {version}, which is too old for the locks: use Postgres {OLDEST} or newer"
            )
        }
        None => return Ok(()),
    };
    Err(refused(message))
}

/// Returns the number behind the name of the product.
fn major(version: &str) -> Option<u32> {
    let number = version.strip_prefix("PostgreSQL ")?;
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Parts of a version's text that name another product.
const FOREIGN: [(&str, &str); 4] = [
    ("CockroachDB", "CockroachDB"),
    ("-YB-", "YugabyteDB"),
    ("Redshift", "Redshift"),
    ("Materialize", "Materialize"),
];

async fn is_direct(one: &mut PgConnection, other: &mut PgConnection) -> Result<Form, RequestError> {
    let (mine, others) = (session_of(one).await?, session_of(other).await?);
    let mut is_direct = mine != others;
    for _ in 0..LOOKS {
        // Asks twice in a row: two sessions that take turns would look like one session for each connection.
        for (connection, session) in [(&mut *one, mine), (&mut *other, others)] {
            for _ in 0..2 {
                is_direct = is_direct && session_of(connection).await? == session;
            }
        }
    }
    Ok(if is_direct { Form::Prepared } else { Form::Text })
}

/// Returns the process of the server that serves a connection.
async fn session_of(connection: &mut PgConnection) -> Result<i32, RequestError> {
    let request = sqlx::raw_sql("SELECT pg_catalog.pg_backend_pid()");
    let row = connection.fetch_one(request).await.map_err(RequestError::Execute)?;
    row.try_get(0).map_err(RequestError::Execute)
}

/// Condition for making the schema.
#[derive(Clone, Copy, PartialEq)]
enum Made {
    /// Makes it if it is missing.
    UnlessThere,
    /// Makes it in any case: parts of it may be missing.
    Anyway,
}

const LOOKING: &str = "looking for the schema of the locks";
const MAKING: &str = "making the schema of the locks";

/// Deadline of an attempt to connect that begins now.
fn end_of_connecting() -> Instant {
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
        Some("25006") => refused(format!("the schema of the locks is to be made, and {READ_ONLY}")),
        Some("42501") => refused(format!(
            "the schema of the locks is missing or of an older format, and this user cannot make it here ({}): run the output of `leasehold schema postgres`, as its owner",
            message_of(&failure)
        )),
        Some(NOT_OURS) => refused(message_of(&failure)),
        // The script names all objects with their schema.
        Some("42P01" | "42883") => refused(format!(
            "the schema of the locks cannot be made: {}: an event trigger of this database seems to name objects without their schema, which the script's search_path does not find; disable it (ALTER EVENT TRIGGER … DISABLE) or correct its function",
            message_of(&failure)
        )),
        // From a pooler that gives each statement another session.
        Some("08P01") => refused(format!(
            "the schema of the locks cannot be made here, since the pooler passes no transaction ({}): run the output of `leasehold schema postgres` over a direct connection",
            message_of(&failure)
        )),
        // The script waited for another migration, or for a use of the objects that it changes.
        Some("55P03" | "57014") => {
            let context = "other transactions blocked the making of the schema for too long";
            let code = code_of(&failure).unwrap_or_default();
            failed(BackendError::transient(BACKEND, Outcome::NotApplied, context, code))
        }
        _ => not_connected(failure),
    }
}
