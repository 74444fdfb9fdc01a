//! The connections that requests go over, and when one is given up.
//!
//! The driver's own pool asks the server once more after each request, and takes back connections in
//! the middle of an answer. Ours does neither: a connection whose caller left early is read to the end
//! of the answer before it is used again, and one that failed or was silent is closed. After a long
//! silence all others are given up as well, since a firewall or a dead peer swallows requests without
//! a word.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Error, Executor, PgConnection};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::error::RequestError;

/// How long to wait for a new connection.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// A caller that leaves after this much silence leaves a suspect connection behind; one that leaves
/// earlier has changed its mind.
const SUSPECT_AFTER: Duration = Duration::from_millis(50);

/// A connection that nobody used for this long is closed when another is taken or put back.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// What goes before each request, so that no default of the server, the database or the user changes
/// what a request does: each statement is to see what the one before it waited for, and what waits
/// for a row is given up by the server when its caller has long left, and not before. It is part of
/// the request's own transaction, and so of no other's.
const PREAMBLE: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; \
    SET LOCAL statement_timeout = 2000; SET LOCAL lock_timeout = 0; ";

/// Sends a request over a connection of the caller's, in a transaction of its own.
pub(crate) async fn ask_on(
    connection: &mut PgConnection,
    request: &str,
) -> Result<Vec<PgRow>, Error> {
    let request = format!("{PREAMBLE}{request}");
    connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(request))).await
}

/// Reads the answer for which an earlier caller did not wait, and which may be an error.
pub(crate) async fn read_to_the_end(connection: &mut PgConnection) -> Result<(), Error> {
    loop {
        match connection.ping().await {
            Err(Error::Database(error)) if keeps_connection(&error.code().unwrap_or_default()) => {}
            read => return read,
        }
    }
}

/// Connections to one server, at most so many at a time.
pub(crate) struct Connections {
    options: Arc<PgConnectOptions>,
    at_most: usize,
    idle: Mutex<Vec<Idle>>,
    /// Connections whose callers left before they were open: the next caller goes on with one, so that
    /// callers with little time get there together.
    left_opening: Mutex<Vec<Opening>>,
    permits: Semaphore,
    answers: AtomicU64,
}

struct Opening {
    since: Instant,
    opens: BoxFuture<'static, Result<PgConnection, RequestError>>,
}

struct Idle {
    connection: PgConnection,
    since: Instant,
    /// Whether an answer is still to be read, for which its caller did not wait.
    unread: bool,
}

impl Idle {
    fn is_fresh(&self) -> bool {
        self.since.elapsed() < IDLE_LIMIT
    }
}

impl Connections {
    pub(crate) fn new(options: PgConnectOptions, at_most: usize) -> Self {
        // C32: requests hold owner ids, which no log may show.
        let options = Arc::new(options.disable_statement_logging());
        let (permits, answers) = (Semaphore::new(at_most), AtomicU64::new(0));
        let (idle, left_opening) = Default::default();
        Self { options, at_most, idle, left_opening, permits, answers }
    }

    /// The settings, for a connection of another kind.
    pub(crate) fn options(&self) -> &PgConnectOptions {
        &self.options
    }

    /// Sends a request in a transaction of its own, and waits for the rows.
    pub(crate) async fn ask(&self, request: &str) -> Result<Vec<PgRow>, RequestError> {
        let mut call = self.call().await?;
        let rows = call.send(request).await;
        call.end(&rows);
        rows.map_err(RequestError::Execute)
    }

    /// A connection that nobody uses, for a use of the caller's own.
    pub(crate) fn take_read(&self) -> Option<PgConnection> {
        self.take_idle().filter(|idle| !idle.unread).map(|idle| idle.connection)
    }

    /// Takes back a connection that is as it was when it was taken.
    pub(crate) fn put_back(&self, connection: PgConnection) {
        self.give_back(connection, false);
    }

    /// A new connection.
    pub(crate) async fn open(&self) -> Result<PgConnection, RequestError> {
        self.begin().opens.await
    }

    fn begin(&self) -> Opening {
        let options = self.options.clone();
        let opens = Box::pin(async move {
            let connected = timeout(CONNECT_LIMIT, options.connect()).await;
            let timed_out = || std::io::Error::from(std::io::ErrorKind::TimedOut);
            connected.unwrap_or_else(|_| Err(timed_out().into())).map_err(RequestError::Connect)
        });
        Opening { since: Instant::now(), opens }
    }

    /// An opening that was left, or a new one.
    fn opening(&self) -> Opening {
        let mut left = self.left_opening();
        left.retain(|opening| opening.since.elapsed() < CONNECT_LIMIT);
        if left.is_empty() { self.begin() } else { left.remove(0) }
    }

    async fn call(&self) -> Result<Call<'_>, RequestError> {
        let permit = self.permits.acquire().await;
        let permit = permit.map_err(|_| RequestError::Connect(Error::PoolClosed))?;
        let answers_before = self.answers.load(Ordering::Relaxed);
        let mut call = Call {
            connections: self,
            opening: None,
            connection: None,
            sent: Instant::now(),
            answers_before,
            _permit: permit,
        };
        while call.connection.is_none() {
            match self.take_idle() {
                None => call.open().await?,
                Some(idle) => {
                    call.connection = Some(idle.connection);
                    if idle.unread {
                        call.read_to_the_end().await;
                    }
                }
            }
        }
        call.sent = Instant::now();
        Ok(call)
    }

    /// The connection that was used last, so that those that are not needed come to be closed.
    fn take_idle(&self) -> Option<Idle> {
        let mut idle = self.idle();
        idle.retain(Idle::is_fresh);
        let at = idle.iter().rposition(|idle| !idle.unread).or(idle.len().checked_sub(1))?;
        Some(idle.remove(at))
    }

    /// Keeps as many as may be in use at a time: holds that end together leave more.
    fn give_back(&self, connection: PgConnection, unread: bool) {
        let mut idle = self.idle();
        idle.retain(Idle::is_fresh);
        idle.push(Idle { connection, since: Instant::now(), unread });
        if idle.len() > self.at_most {
            idle.remove(0);
        }
    }

    /// Closes those that nobody uses: one like them was silent.
    pub(crate) fn give_up_all(&self) {
        self.idle().clear();
    }

    fn left_opening(&self) -> MutexGuard<'_, Vec<Opening>> {
        self.left_opening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request under way.
struct Call<'a> {
    connections: &'a Connections,
    opening: Option<Opening>,
    connection: Option<PgConnection>,
    sent: Instant,
    answers_before: u64,
    _permit: SemaphorePermit<'a>,
}

impl Call<'_> {
    async fn open(&mut self) -> Result<(), RequestError> {
        let opening = self.opening.insert(self.connections.opening());
        let opened = (&mut opening.opens).await;
        self.opening = None;
        self.connection = Some(opened?);
        Ok(())
    }

    async fn send(&mut self, request: &str) -> Result<Vec<PgRow>, Error> {
        let connection = self.connection.as_mut().ok_or(Error::PoolClosed)?;
        ask_on(connection, request).await
    }

    /// Makes sure that an answer that an earlier caller left is read; a connection that fails is let go.
    async fn read_to_the_end(&mut self) {
        if let Some(connection) = &mut self.connection
            && read_to_the_end(connection).await.is_err()
        {
            self.connection = None;
        }
    }

    /// Keeps the connection if the server answered, and means to go on answering.
    fn end(mut self, answer: &Result<Vec<PgRow>, Error>) {
        self.connections.answers.fetch_add(1, Ordering::Relaxed);
        let goes_on = match answer {
            Ok(_) => true,
            Err(Error::Database(error)) => keeps_connection(&error.code().unwrap_or_default()),
            Err(_) => false,
        };
        match self.connection.take() {
            Some(connection) if goes_on => self.connections.give_back(connection, false),
            _ => self.connections.give_up_all(),
        }
    }
}

/// Whether the server goes on with a connection after this error, and should: a new one may lead to a
/// server that is no standby.
fn keeps_connection(code: &str) -> bool {
    !["08", "57P", "58", "XX", "25006", "0A000"].iter().any(|class| code.starts_with(class))
}

impl Drop for Call<'_> {
    /// Without an answer: the caller changed its mind, or despaired.
    fn drop(&mut self) {
        if let Some(opening) = self.opening.take() {
            self.connections.left_opening().push(opening);
        }
        let Some(connection) = self.connection.take() else { return };
        // C21: read to the end of the answer before its next use, or closed.
        let silent = self.connections.answers.load(Ordering::Relaxed) == self.answers_before;
        if self.sent.elapsed() < SUSPECT_AFTER {
            self.connections.give_back(connection, true);
        } else if silent {
            self.connections.give_up_all();
        }
    }
}
