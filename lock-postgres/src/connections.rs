//! Connections for requests, and the end of each.
//!
//! The driver's own pool sends the server one more request after each request, and takes back connections in the
//! middle of an answer. `Connections` does neither. A connection whose caller left early is read to the end of
//! the answer before its next use. A connection that failed or was silent is closed. After a long silence all
//! others are given up as well, since a firewall or a dead peer swallows requests without an error.
//!
//! ```text
//!            request                 answer
//!    idle ───────────▶ in use ──────────────────────▶ idle
//!     ▲                 │   │  error, or left late
//!     │ read to the end │   └───────────────────────▶ closed
//!     │                 ▼ left early
//!     └────────────── unread
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use lock_core::LockName;
use lock_core::backend::{PendingReply, ReplyMonitor};
use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::{ConnectOptions, Error, PgConnection};
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::error::RequestError;
use crate::idle::Idle;
use crate::opener::Opener;
use crate::sql::Call;
use crate::transaction::{
    Form, Request, keeps_connection, lost_statement, read_to_the_end, send, set_up,
};
use crate::turns::Turns;

/// Longest wait for a new connection.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// A caller that leaves after this much silence leaves a suspect connection behind. A caller that leaves earlier
/// has changed its mind.
pub(crate) const SUSPECT_AFTER: Duration = Duration::from_millis(50);

/// A connection that nobody used for this long is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// Part of the connections that attempts at one lock may use: several locks may be jammed at a time.
const PART_OF_ONE_LOCK: usize = 4;

/// Purpose of a request.
#[derive(Clone, Copy, PartialEq)]
enum Purpose<'a> {
    /// An attempt at this lock.
    Attempt(&'a LockName),
    Renewal,
    Any,
}

impl<'a> Purpose<'a> {
    fn attempt_at(self) -> Option<&'a LockName> {
        match self {
            Self::Attempt(name) => Some(name),
            Self::Renewal | Self::Any => None,
        }
    }
}

/// Bounded set of connections to one server.
pub(crate) struct Connections {
    pub(crate) opener: Opener,
    /// True unless a pooler was seen that shares sessions between connections.
    is_direct: AtomicBool,
    at_most: usize,
    idle: Idle<IdleConnection>,
    /// Connections whose callers left before they were open. The next caller continues with one, so that several
    /// callers with little time succeed together. Without a next caller it is closed.
    left_opening: Idle<Opening>,
    permits: Semaphore,
    /// Renewals have one connection to themselves, if there is more than one.
    for_renewals: Semaphore,
    turns: Turns,
    replies: ReplyMonitor,
}

struct Opening {
    since: Instant,
    opens: BoxFuture<'static, Result<PgConnection, RequestError>>,
}

struct IdleConnection {
    connection: PgConnection,
    state: IdleState,
}

enum IdleState {
    /// No answer is outstanding.
    Read,
    /// An answer is still to be read, because its caller left: to an attempt at this lock, if it was one. The
    /// server may be unable to answer until somebody unlocks that lock's row.
    Unread(Option<LockName>),
}

impl IdleConnection {
    fn is_read(&self) -> bool {
        matches!(self.state, IdleState::Read)
    }

    fn is_unread_attempt_at(&self, name: &LockName) -> bool {
        matches!(&self.state, IdleState::Unread(Some(left)) if left == name)
    }
}

impl Connections {
    pub(crate) fn new(opener: Opener, form: Form, at_most: usize) -> Self {
        let is_direct = AtomicBool::new(form == Form::Prepared);
        let kept_free = usize::from(at_most > 1);
        let turns = Turns::new((at_most / PART_OF_ONE_LOCK).max(1));
        Self {
            opener,
            is_direct,
            at_most,
            idle: Idle::new(IDLE_LIMIT),
            left_opening: Idle::new(CONNECT_LIMIT),
            permits: Semaphore::new(at_most - kept_free),
            for_renewals: Semaphore::new(kept_free),
            turns,
            replies: ReplyMonitor::default(),
        }
    }

    /// Returns the form in which requests are sent.
    pub(crate) fn form(&self) -> Form {
        match self.is_direct.load(Ordering::Relaxed) {
            true => Form::Prepared,
            false => Form::Text,
        }
    }

    /// Calls a function in a transaction of its own, and waits for the rows.
    pub(crate) async fn call(&self, call: &Call) -> Result<Vec<PgRow>, RequestError> {
        self.send(Purpose::Any, &Request::Call(call)).await
    }

    /// Sends a text that holds no owner id, in a transaction of its own, and waits for the rows.
    pub(crate) async fn request(&self, sql: &str) -> Result<Vec<PgRow>, RequestError> {
        self.send(Purpose::Any, &Request::Plain(sql)).await
    }

    /// Sends renewals. They get a connection even if other requests use all the rest.
    pub(crate) async fn renew(&self, call: &Call) -> Result<Vec<PgRow>, RequestError> {
        self.send(Purpose::Renewal, &Request::Call(call)).await
    }

    /// Sends an attempt at a lock. Only a few attempts at the same lock are in progress at a time.
    pub(crate) async fn attempt(
        &self,
        name: &LockName,
        call: &Call,
    ) -> Result<Vec<PgRow>, RequestError> {
        // C19: a jammed lock leaves connections for the others.
        let _turn = self.turns.turn(name).await;
        self.send(Purpose::Attempt(name), &Request::Call(call)).await
    }

    async fn send(
        &self,
        purpose: Purpose<'_>,
        request: &Request<'_>,
    ) -> Result<Vec<PgRow>, RequestError> {
        let mut exchange = self.exchange(purpose).await?;
        let reply = self.pending_reply();
        let rows = exchange.send(request).await;
        reply.received();
        exchange.end(&rows);
        rows.map_err(RequestError::Execute)
    }

    /// C17: gives up all connections after a long silence of the server.
    fn pending_reply(&self) -> PendingReply<'_, impl FnOnce()> {
        self.replies.request_sent(SUSPECT_AFTER, || self.give_up_all())
    }

    /// Opens a new connection.
    pub(crate) async fn open(&self) -> Result<PgConnection, RequestError> {
        self.begin_to_open().opens.await
    }

    fn begin_to_open(&self) -> Opening {
        let (opener, form) = (self.opener.clone(), self.form());
        let open = move |settings| async move {
            let connected = timeout(CONNECT_LIMIT, connect(settings, form)).await;
            let timed_out = || std::io::Error::from(std::io::ErrorKind::TimedOut);
            connected.unwrap_or_else(|_| Err(timed_out().into()))
        };
        let opens =
            Box::pin(async move { opener.log_in(open).await.map_err(RequestError::Connect) });
        Opening { since: Instant::now(), opens }
    }

    /// Returns an opening that its caller left, or a new one.
    fn opening(&self) -> Opening {
        let in_time = |(opening, _): &(Opening, _)| opening.since.elapsed() < CONNECT_LIMIT;
        let left = self.left_opening.take(|left| left.iter().position(in_time));
        left.unwrap_or_else(|| self.begin_to_open())
    }

    async fn exchange(&self, purpose: Purpose<'_>) -> Result<Exchange<'_>, RequestError> {
        let permit = self.permit(purpose).await;
        let permit = permit.map_err(|_| RequestError::Connect(Error::PoolClosed))?;
        let mut exchange = Exchange {
            connections: self,
            attempt_at: None,
            opening: None,
            connection: None,
            sent: Instant::now(),
            _permit: permit,
        };
        while exchange.connection.is_none() {
            match self.take_idle(purpose) {
                None => exchange.open().await?,
                Some(idle) => exchange.take(idle).await,
            }
        }
        (exchange.attempt_at, exchange.sent) = (purpose.attempt_at().cloned(), Instant::now());
        Ok(exchange)
    }

    async fn permit(&self, purpose: Purpose<'_>) -> Result<SemaphorePermit<'_>, AcquireError> {
        match purpose {
            // C12: a crowd of other requests does not delay renewals.
            Purpose::Renewal if self.at_most > 1 => tokio::select! {
                permit = self.permits.acquire() => permit,
                permit = self.for_renewals.acquire() => permit,
            },
            Purpose::Renewal | Purpose::Attempt(_) | Purpose::Any => self.permits.acquire().await,
        }
    }

    /// Returns the idle connection to use next; `None` if a new one is better.
    ///
    /// An attempt prefers a connection on which an earlier attempt at the same lock is unread: while the lock is
    /// jammed, one connection is enough to wait for it. Next comes the connection that was used last, so that the
    /// others become idle long enough to be closed. A connection with an unread answer of another caller comes
    /// last, since that answer may take long; a renewal never uses one.
    fn take_idle(&self, purpose: Purpose<'_>) -> Option<IdleConnection> {
        let free = self.permits.available_permits() + self.for_renewals.available_permits();
        let in_use = self.at_most - free;
        let attempt_at = purpose.attempt_at();
        self.idle.take(|idle| {
            let same = attempt_at
                .and_then(|name| idle.iter().position(|(idle, _)| idle.is_unread_attempt_at(name)));
            let may_open = idle.len() + in_use <= self.at_most || purpose == Purpose::Renewal;
            let at = same.or_else(|| idle.iter().rposition(|(idle, _)| idle.is_read()));
            at.or_else(|| (!may_open && !idle.is_empty()).then_some(0))
        })
    }

    /// Keeps at most as many as may be in use at a time: holds that end together leave more.
    fn keep(&self, connection: PgConnection, state: IdleState) {
        self.idle.put(IdleConnection { connection, state }, self.at_most);
    }

    /// Closes all idle connections: one connection was silent, or the client ends.
    pub(crate) fn give_up_all(&self) {
        self.idle.clear();
    }
}

async fn connect(settings: PgConnectOptions, form: Form) -> Result<PgConnection, Error> {
    let mut connection = settings.connect().await?;
    if form == Form::Prepared {
        set_up(&mut connection).await?;
    }
    Ok(connection)
}

/// A request in progress.
struct Exchange<'a> {
    connections: &'a Connections,
    /// Lock of the attempt whose answer is outstanding, if the request is an attempt.
    attempt_at: Option<LockName>,
    opening: Option<Opening>,
    connection: Option<PgConnection>,
    sent: Instant,
    _permit: SemaphorePermit<'a>,
}

impl Exchange<'_> {
    async fn open(&mut self) -> Result<(), RequestError> {
        let opening = self.opening.insert(self.connections.opening());
        let opened = (&mut opening.opens).await;
        self.opening = None;
        self.connection = Some(opened?);
        Ok(())
    }

    /// Uses an idle connection, after reading the answer that an earlier caller left. Drops a connection that
    /// fails.
    async fn take(&mut self, idle: IdleConnection) {
        let connection = self.connection.insert(idle.connection);
        let IdleState::Unread(attempt_at) = idle.state else { return };
        self.attempt_at = attempt_at;
        let reply = self.connections.pending_reply();
        let read = read_to_the_end(connection).await;
        reply.received();
        if read.is_err() {
            self.connection = None;
        }
    }

    async fn send(&mut self, request: &Request<'_>) -> Result<Vec<PgRow>, Error> {
        let connection = self.connection.as_mut().ok_or(Error::PoolClosed)?;
        send(connection, self.connections.form(), request).await
    }

    /// Keeps the connection if the server answered, and will answer again.
    fn end(mut self, answer: &Result<Vec<PgRow>, Error>) {
        let goes_on = answer.as_ref().map_or_else(keeps_connection, |_| true);
        if answer.as_ref().is_err_and(lost_statement) {
            // A pooler that `connect` did not see, because it was busy with other clients.
            self.connections.is_direct.store(false, Ordering::Relaxed);
        }
        match self.connection.take() {
            Some(connection) if goes_on => self.connections.keep(connection, IdleState::Read),
            _ => self.connections.give_up_all(),
        }
    }
}

impl Drop for Exchange<'_> {
    /// Ends a request whose caller left without an answer: it changed its mind, or waited too long.
    fn drop(&mut self) {
        if let Some(opening) = self.opening.take() {
            self.connections.left_opening.put(opening, self.connections.at_most);
        }
        // C21: reads to the end of the answer before the next use, or closes the connection.
        if let Some(connection) = self.connection.take()
            && self.sent.elapsed() < SUSPECT_AFTER
        {
            self.connections.keep(connection, IdleState::Unread(self.attempt_at.take()));
        }
    }
}
