//! One attempt to take an advisory lock.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Attempt, Claim, Grant, ServerTime};
use lock_core::{BackendError, Contention, FencingToken, Label, LockName, Outcome, OwnerId};
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use super::holds::Holds;
use super::registry::Registry;
use super::rows::{NOT_OVER, named};
use super::session::Session;
use super::session_task::{Held, set_idle_timeout};
use crate::connections::Connections;
use crate::error::{BACKEND, RequestError, classify, unreadable};
use crate::reply::{self, get};
use crate::server::Server;
use crate::transaction::{Form, Request, send};

/// How long an attempt may take, whether or not its caller waits.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(3);

/// How long a hold is kept for a caller that left before the answer.
const UNCLAIMED_FOR: Duration = Duration::from_secs(2);

/// The server is to notice within some ten seconds that our machine is gone.
const KEEP_ALIVE: &str = "SELECT set_config('tcp_keepalives_idle', '5', false), \
    set_config('tcp_keepalives_interval', '2', false), \
    set_config('tcp_keepalives_count', '3', false)";

/// Attempts, some of which may be under way at a time.
pub(super) struct Attempts {
    holds: Holds,
    registry: Arc<Registry>,
    /// Sessions that hold nothing.
    spares: Arc<Connections>,
    runtime: Handle,
    permits: Semaphore,
}

impl Attempts {
    /// Sessions live on the current runtime.
    pub(super) fn new(holds: Holds, registry: Arc<Registry>, at_a_time: usize) -> Self {
        let spares = Connections::new(
            holds.server.connections.options().clone(),
            Form::Prepared,
            at_a_time,
        );
        let (spares, runtime) = (Arc::new(spares), Handle::current());
        Self { holds, registry, spares, runtime, permits: Semaphore::new(at_a_time) }
    }

    /// Tries once. The attempt comes to its end also if its caller leaves. A claim that was withdrawn
    /// meanwhile is then given back, and its connection serves the next attempt.
    pub(super) async fn make(self: &Arc<Self>, claim: &Claim) -> Result<Attempt, BackendError> {
        let (attempts, claim) = (self.clone(), claim.clone());
        let (reply, answer) = oneshot::channel();
        self.runtime.spawn(async move {
            let attempt = attempts.in_time(&claim).await;
            if reply.send(attempt).is_err() {
                attempts.give_back_unclaimed(claim.owner).await;
            }
        });
        answer.await.unwrap_or_else(|_| {
            let context = "the runtime that keeps the sessions has ended";
            Err(BackendError::transient(BACKEND, Outcome::NotApplied, context, context))
        })
    }

    /// Ends the hold of a caller that left before the answer, and that may be unable to withdraw, unless
    /// the caller came back for it.
    async fn give_back_unclaimed(&self, owner: OwnerId) {
        sleep(UNCLAIMED_FOR).await;
        if let Some(session) = self.registry.holding(owner)
            && !session.is_claimed()
        {
            // A session that does not answer is closed.
            let _ = session.release().await;
        }
    }

    async fn in_time(&self, claim: &Claim) -> Result<Attempt, BackendError> {
        timeout(ATTEMPT_LIMIT, self.attempt(claim)).await.unwrap_or_else(|_| {
            // What swallowed the requests of this connection swallows those of the others as well.
            self.spares.give_up_all();
            Err(BackendError::no_answer(BACKEND, ATTEMPT_LIMIT))
        })
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt, BackendError> {
        let key = self.holds.key(&claim.name);
        let _permit = self.permits.acquire().await;
        self.registry.admit(claim.owner)?;
        let mut connection = self.session().await.map_err(classify)?;
        let (process, seen) = self.try_lock(&mut connection, key, &claim.name).await?;
        if let Some(seen) = seen {
            self.spares.put_back(connection);
            return Ok(Attempt::Busy(seen));
        }
        // The token comes after the lock, in a statement of its own.
        let (token, now) = self.grant(&mut connection, claim, process).await?;
        self.keep(claim, key, token, connection).await?;
        let grant = Grant::new(token, claim.ttl.as_duration());
        Ok(Attempt::Granted(grant.at(ServerTime(now))))
    }

    /// Has the hold looked after, unless its claim was withdrawn meanwhile.
    async fn keep(
        &self,
        claim: &Claim,
        key: i64,
        token: FencingToken,
        connection: PgConnection,
    ) -> Result<(), BackendError> {
        let (name, owner, table) = (claim.name.clone(), claim.owner, self.server().names.table());
        let held = Held { name, owner, token, key, table };
        let session = Arc::new(Session::keep(held, claim.ttl, connection, self.spares.clone()));
        let registered = self.registry.register(&session);
        if registered.is_err() {
            session.release().await?;
        }
        registered
    }

    async fn session(&self) -> Result<PgConnection, RequestError> {
        if let Some(spare) = self.spares.take_read() {
            return Ok(spare);
        }
        let mut connection = self.spares.open().await?;
        send(&mut connection, Form::Prepared, &Request::Plain(KEEP_ALIVE)).await.map_err(RequestError::Execute)?;
        Ok(connection)
    }

    fn server(&self) -> &Server {
        &self.holds.server
    }

    /// Takes the lock if it is free. Says which process of the server was asked, and what is known of the
    /// holder if there is one. It never waits in the server, where a wait that is given up may have
    /// taken the lock all the same.
    async fn try_lock(
        &self,
        connection: &mut PgConnection,
        key: i64,
        name: &LockName,
    ) -> Result<(i32, Option<Contention>), BackendError> {
        const WHAT: &str = "the answer to an acquire";
        let sql = format!(
            "SELECT pg_backend_pid(), {now}(), h.*, CASE WHEN pg_is_in_recovery() THEN NULL \
             ELSE pg_try_advisory_lock(({key})::bigint) END FROM (SELECT 1) one LEFT JOIN \
             (SELECT l.label, (extract(epoch FROM l.expires_at - clock_timestamp()) \
             * 1000000)::bigint FROM {table} l WHERE {named} AND l.owner IS NOT NULL \
             AND {NOT_OVER}) h ON true",
            now = self.server().names.function("now_us"),
            table = self.server().names.table(),
            named = named(name),
        );
        let rows = send(connection, Form::Prepared, &Request::Plain(&sql)).await;
        let rows = rows.map_err(|error| classify(RequestError::Execute(error)))?;
        let row = reply::only(rows, WHAT)?;
        let process = get(&row, 0, WHAT)?;
        match get::<Option<bool>>(&row, 4, WHAT)? {
            Some(true) => Ok((process, None)),
            Some(false) => Ok((process, Some(contention(&row)?))),
            None => {
                let context = "the server takes no writes: it is a standby";
                Err(BackendError::transient(BACKEND, Outcome::NotApplied, context, context))
            }
        }
    }

    /// Writes the hold into its row, and returns its token and the server's time.
    async fn grant(
        &self,
        connection: &mut PgConnection,
        claim: &Claim,
        process: i32,
    ) -> Result<(FencingToken, Duration), BackendError> {
        const WHAT: &str = "the token of a grant";
        let enter = self.server().call("enter").text(claim.name.as_str()).as_text();
        let grant = self.server().call("grant").text(claim.name.as_str()).owner(claim.owner);
        let grant = grant.number(i64::try_from(claim.ttl.as_millis()).unwrap_or(i64::MAX));
        let grant = grant.text(claim.label.as_str()).number(self.server().clock_limit());
        let grant = grant.number(process.into()).as_text();
        let now = self.server().names.function("now_us");
        let sql = format!(
            "{enter}; SELECT {now}() AS now, pg_backend_pid(), {}, g.* FROM ({grant}) g",
            set_idle_timeout(claim.ttl)
        );
        let rows = send(connection, Form::Prepared, &Request::Plain(&sql)).await;
        let rows = rows.map_err(|error| classify(RequestError::Execute(error)))?;
        let row = rows.last().ok_or_else(|| unreadable(WHAT))?;
        if get::<i32>(row, 1, WHAT)? != process {
            let context = "a pooler gives each transaction another session: use `lock_mode=table`";
            return Err(BackendError::permanent(BACKEND, Outcome::Unknown, context, context));
        }
        let token = reply::fencing_token(get(row, 3, WHAT)?)?;
        Ok((token, reply::micros(get(row, 0, WHAT)?)))
    }
}

/// What is known of a holder: process, now, label, time left.
fn contention(row: &PgRow) -> Result<Contention, BackendError> {
    const WHAT: &str = "the holder of a lock";
    let mut seen = Contention::unknown();
    seen.at = Some(ServerTime(reply::micros(get(row, 1, WHAT)?)));
    let label = get::<Option<String>>(row, 2, WHAT)?;
    seen.holder = label.and_then(|label| Label::new(label).ok());
    seen.ttl_left = get::<Option<i64>>(row, 3, WHAT)?.map(reply::micros);
    Ok(seen)
}
