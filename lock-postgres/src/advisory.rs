//! Locks as advisory locks of sessions of the server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use lock_core::{
    Attempt, BackendError, Capabilities, Claim, Contention, DistributedLock, Extension, Finding,
    Grant, Holder, Label, Lease, LockError, LockName, LockState, LossWatch, Order, Outcome,
    OwnerId, Release, Renewal, ServerTime, TokenDurability, Waker, Wakeup,
};
use sha2::{Digest, Sha256};
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::connections::{Connections, ask_on};
use crate::doctor;
use crate::error::{BACKEND, Failure, unreadable};
use crate::fence::PostgresFence;
use crate::options::PostgresOptions;
use crate::reply::{self, get};
use crate::server::Server;
use crate::session::{Held, Session, patience};
use crate::sql::{owner_literal, text_literal};

/// How often a waiter looks.
const POLL: Duration = Duration::from_millis(50);

/// How long an attempt may take, whether or not its caller waits.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(3);

/// How long a withdrawn claim is remembered.
const WITHDRAWN_FOR: Duration = Duration::from_secs(30);

/// The server is to notice within some ten seconds that our machine is gone.
const KEEP_ALIVE: &str = "SELECT set_config('tcp_keepalives_idle', '5', false), \
    set_config('tcp_keepalives_interval', '2', false), \
    set_config('tcp_keepalives_count', '3', false)";

/// Locks that are session-level advisory locks of a Postgres server.
///
/// Each hold has a connection of its own, and ends with it: a process that dies frees its locks at
/// once. The lock's key is the first 8 bytes of the SHA-256 of `schema.table`, a zero byte and the
/// name; two names that share one by chance exclude each other, and nothing worse. Waiters poll, and
/// come in any order.
///
/// Sessions live on the runtime on which this was connected, and end with it. Needs a direct
/// connection to the primary, or a pooler that pools by session. See the
/// [crate documentation](crate) for what it guarantees.
#[derive(Clone)]
pub struct AdvisoryLock {
    shared: Arc<Shared>,
}

struct Shared {
    server: Server,
    /// Sessions that hold nothing.
    spares: Arc<Connections>,
    runtime: Handle,
    /// How many attempts may be under way.
    attempts: Semaphore,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    sessions: HashMap<OwnerId, Arc<Session>>,
    withdrawn: HashMap<OwnerId, Instant>,
}

impl AdvisoryLock {
    /// Connects to the database at `url`: [`PostgresOptions`] says more.
    ///
    /// # Errors
    /// As [`PostgresOptions::connect_advisory`].
    ///
    /// # Cancel safety
    /// As [`PostgresOptions::connect_advisory`].
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        PostgresOptions::new(url).connect_advisory().await
    }

    pub(crate) async fn with_options(options: &PostgresOptions) -> Result<Self, LockError> {
        let mut server = Server::new(options)?;
        server.place = server.place.for_advisory_locks();
        server.ensure_schema().await?;
        if server.is_pooled().await? {
            return Err(refused("a pooler gives each transaction another session"));
        }
        let standby = "SELECT 1 WHERE pg_is_in_recovery()";
        if !server.connections.ask(standby).await?.is_empty() {
            return Err(refused("the server is a standby, whose advisory locks are its own"));
        }
        let spares = Connections::new(server.connections.options().clone(), options.connections);
        let (spares, runtime) = (Arc::new(spares), Handle::current());
        let (attempts, book) = (Semaphore::new(options.connections), Mutex::default());
        Ok(Self { shared: Arc::new(Shared { server, spares, runtime, attempts, book }) })
    }

    /// The fence of a resource in this database.
    pub fn fence(&self, resource: impl Into<String>) -> PostgresFence {
        PostgresFence::new(self.shared.server.clone(), resource.into())
    }
}

fn refused(why: &str) -> LockError {
    LockError::Config {
        message: format!(
            "advisory locks cannot be used here: {why}; use `lock_mode=table`, or \
                          connect to the primary directly"
        ),
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key of a lock.
    fn key(&self, name: &LockName) -> i64 {
        let mut hash = Sha256::new();
        hash.update(self.server.place.space());
        hash.update([0]);
        hash.update(name.as_str());
        let mut first = [0; 8];
        first.copy_from_slice(&hash.finalize()[..8]);
        i64::from_be_bytes(first)
    }

    /// The same key, as the server reckons it from a column of names.
    fn key_of_column(&self, column: &str) -> String {
        let space = text_literal(&self.server.place.space());
        format!(
            "('x' || encode(substr(sha256(convert_to({space}, 'UTF8') || decode('00', 'hex') \
             || convert_to({column}, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint"
        )
    }

    /// Tries once, on the runtime on which sessions live.
    async fn attempt(self: Arc<Self>, claim: Claim) -> Result<Attempt, BackendError> {
        let key = self.key(&claim.name);
        let _permit = self.attempts.acquire().await;
        self.book().admit(claim.owner)?;
        let mut connection = self.session().await?;
        let (process, seen) = self.try_lock(&mut connection, key, &claim.name).await?;
        if let Some(seen) = seen {
            self.spares.put_back(connection);
            return Ok(Attempt::Busy(seen));
        }
        // The token comes after the lock, in a statement of its own.
        let (token, now) = self.grant(&mut connection, &claim, process).await?;
        let held = Held {
            name: claim.name.clone(),
            owner: claim.owner,
            token,
            key,
            table: self.server.place.table(),
        };
        let session = Arc::new(Session::keep(held, claim.ttl, connection, self.spares.clone()));
        let entered = self.book().enter(claim.owner, &session);
        if let Err(withdrawn) = entered {
            session.release().await?;
            return Err(withdrawn);
        }
        let grant = Grant::new(token, claim.ttl.as_duration());
        Ok(Attempt::Granted(grant.at(ServerTime(now))))
    }

    async fn session(&self) -> Result<PgConnection, Failure> {
        if let Some(spare) = self.spares.take_read() {
            return Ok(spare);
        }
        let mut connection = self.spares.open().await?;
        ask_on(&mut connection, KEEP_ALIVE).await.map_err(Failure::Asking)?;
        Ok(connection)
    }

    /// Takes the lock if it is free; says which process of the server was asked, and what is known of
    /// the holder if there is one. It never waits in the server: one that gives up a wait may have
    /// taken the lock all the same.
    async fn try_lock(
        &self,
        connection: &mut PgConnection,
        key: i64,
        name: &LockName,
    ) -> Result<(i32, Option<Contention>), BackendError> {
        const WHAT: &str = "the answer to an acquire";
        let request = format!(
            "SELECT pg_backend_pid(), {now}(), h.*, CASE WHEN pg_is_in_recovery() THEN NULL \
             ELSE pg_try_advisory_lock(({key})::bigint) END FROM (SELECT 1) one LEFT JOIN \
             (SELECT l.label, (extract(epoch FROM l.expires_at - clock_timestamp()) \
             * 1000000)::bigint FROM {table} l WHERE l.name = {name} AND l.owner IS NOT NULL \
             AND l.expires_at > clock_timestamp()) h ON true",
            now = self.server.place.function("now_us"),
            table = self.server.place.table(),
            name = text_literal(name.as_str()),
        );
        let rows = ask_on(connection, &request).await.map_err(Failure::Asking)?;
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
    ) -> Result<(lock_core::FencingToken, Duration), BackendError> {
        const WHAT: &str = "the token of a grant";
        let enter = self.server.call("enter").text(claim.name.as_str()).end();
        let grant = self.server.call("grant").text(claim.name.as_str()).owner(claim.owner);
        let grant = grant.number(i64::try_from(claim.ttl.as_millis()).unwrap_or(i64::MAX));
        let grant = grant.text(claim.label.as_str()).number(self.server.clock_limit()).end();
        let now = self.server.place.function("now_us");
        let request = format!(
            "{enter}; SELECT {now}() AS now, pg_backend_pid(), {}, g.* FROM ({grant}) g",
            patience(claim.ttl)
        );
        let rows = ask_on(connection, &request).await.map_err(Failure::Asking)?;
        let row = rows.last().ok_or_else(|| unreadable(WHAT))?;
        if get::<i32>(row, 1, WHAT)? != process {
            let context = "a pooler gives each transaction another session: use `lock_mode=table`";
            return Err(BackendError::permanent(BACKEND, Outcome::Unknown, context, context));
        }
        let token = reply::fencing_token(get(row, 3, WHAT)?)?;
        Ok((token, reply::micros(get(row, 0, WHAT)?)))
    }

    /// The holds whose rows meet `condition`, as a listing has them, and the session of each.
    fn holds(&self, condition: &str, limit: usize) -> String {
        format!(
            "SELECT l.name, left(l.owner::text, 8), l.token, greatest(0, \
             (extract(epoch FROM l.expires_at - clock_timestamp()) * 1000000)::bigint), l.label, \
             k.pid FROM {} l JOIN pg_catalog.pg_locks k ON k.locktype = 'advisory' \
             AND k.objsubid = 1 AND k.granted \
             AND k.database = (SELECT oid FROM pg_catalog.pg_database \
             WHERE datname = current_database()) \
             AND (k.classid::bigint << 32 | k.objid::bigint) = {} \
             WHERE l.owner IS NOT NULL AND {condition} ORDER BY l.name LIMIT {limit}",
            self.server.place.table(),
            self.key_of_column("l.name"),
        )
    }

    async fn states(&self, condition: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        const WHAT: &str = "the state of a lock";
        let rows = self.server.rows(self.holds(condition, limit)).await?;
        let state = |row: &PgRow| {
            let name = LockName::new(get::<String>(row, 0, WHAT)?).map_err(|_| unreadable(WHAT))?;
            Ok(LockState::new(name, reply::holder(row)?, None))
        };
        rows.iter().map(state).collect()
    }

    /// Ends a hold that meets `condition`, of whatever process: first in its row, so that its holder
    /// finds out why, then by ending the session that holds it.
    async fn end(&self, condition: &str) -> Result<Option<Holder>, BackendError> {
        let rows = self.server.rows(self.holds(condition, 1)).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (holder, process) = (reply::holder(row)?, get::<i32>(row, 5, "a session")?);
        let request = format!(
            "UPDATE {} l SET owner = NULL, label = '', expires_at = '-infinity' \
             WHERE l.owner IS NOT NULL AND {condition}; SELECT pg_terminate_backend({process})",
            self.server.place.table(),
        );
        self.server.rows(request).await?;
        Ok(holder)
    }

    /// Extends a hold of another process or client, which looks at its row.
    async fn extend_elsewhere(&self, renewal: &Renewal) -> Result<Extension, BackendError> {
        let condition = owned(&renewal.name, renewal.owner);
        if self.states(&condition, 1).await?.is_empty() {
            return Ok(Extension::Lost);
        }
        let request = format!(
            "UPDATE {} l SET expires_at = greatest(l.expires_at, \
             clock_timestamp() + ({}) * interval '1 millisecond') WHERE {condition} RETURNING 1",
            self.server.place.table(),
            renewal.ttl.as_millis(),
        );
        match self.server.rows(request).await?.is_empty() {
            true => Ok(Extension::Lost),
            false => Ok(Extension::Extended(renewal.ttl.as_duration())),
        }
    }

    async fn extend_one(&self, renewal: &Renewal) -> Result<Extension, BackendError> {
        let extending =
            self.book().session(renewal.owner).map(|session| session.extend(renewal.ttl));
        match extending {
            Some(extending) => extending.await,
            None => self.extend_elsewhere(renewal).await,
        }
    }
}

impl Book {
    fn session(&self, owner: OwnerId) -> Option<&Session> {
        self.sessions.get(&owner).filter(|session| !session.is_over()).map(|session| &**session)
    }

    /// Notes a session, unless its claim was given up meanwhile.
    fn enter(&mut self, owner: OwnerId, session: &Arc<Session>) -> Result<(), BackendError> {
        self.admit(owner)?;
        if self.sessions.len() == self.sessions.capacity() {
            self.sessions.retain(|_, session| !session.is_over());
        }
        self.sessions.insert(owner, session.clone());
        Ok(())
    }

    fn withdraw(&mut self, owner: OwnerId) {
        self.withdrawn.retain(|_, at| at.elapsed() < WITHDRAWN_FOR);
        self.withdrawn.insert(owner, Instant::now());
    }

    /// Refuses a request of a claim that was given up.
    fn admit(&self, owner: OwnerId) -> Result<(), BackendError> {
        match self.withdrawn.contains_key(&owner) {
            false => Ok(()),
            true => {
                let context = "the claim was withdrawn";
                Err(BackendError::permanent(BACKEND, Outcome::NotApplied, context, context))
            }
        }
    }
}

/// The condition of a row that tells of an owner's hold that is not over.
fn owned(name: &LockName, owner: OwnerId) -> String {
    let (name, owner) = (text_literal(name.as_str()), owner_literal(owner));
    format!("l.name = {name} AND l.owner = {owner} AND l.expires_at > clock_timestamp()")
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

#[async_trait]
impl DistributedLock for AdvisoryLock {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(
            BACKEND,
            Order::Unordered,
            Wakeup::Poll(POLL),
            TokenDurability::CounterAndClock,
            Duration::from_millis(1),
            "a restart of the server ends all holds at once; a failover to a standby that lacks the \
             last commits grants them anew, with greater tokens unless its clock is behind",
        )
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        _waker: Option<&Waker>,
    ) -> Result<Attempt, BackendError> {
        self.shared.book().admit(claim.owner)?;
        let own = {
            let book = self.shared.book();
            let session = book.session(claim.owner);
            session.map(|session| (session.held.token, session.extend(claim.ttl)))
        };
        if let Some((token, extending)) = own
            && let Extension::Extended(ttl) = extending.await?
        {
            return Ok(Attempt::Granted(Grant::new(token, ttl)));
        }
        // It comes to its end also if nobody waits for it any more: a claim that was withdrawn meanwhile
        // is given back then, and the connection is of use to the next.
        let attempt = timeout(ATTEMPT_LIMIT, self.shared.clone().attempt(claim.clone()));
        match self.shared.runtime.spawn(attempt).await {
            Ok(Ok(attempt)) => attempt,
            Ok(Err(_)) => Err(BackendError::no_answer(BACKEND, ATTEMPT_LIMIT)),
            Err(error) => {
                let context = "the runtime that keeps the sessions has ended";
                let source = error.to_string();
                Err(BackendError::transient(BACKEND, Outcome::NotApplied, context, source))
            }
        }
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        join_all(renewals.iter().map(|renewal| self.shared.extend_one(renewal))).await
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        let releasing = self.shared.book().session(owner).map(Session::release);
        if let Some(releasing) = releasing {
            let released = releasing.await;
            self.shared.book().sessions.remove(&owner);
            return released;
        }
        match self.shared.end(&owned(name, owner)).await? {
            Some(_) => Ok(Release::Released),
            None => Ok(Release::NotHeld),
        }
    }

    async fn withdraw(&self, claim: &Claim) -> Result<(), BackendError> {
        self.shared.book().withdraw(claim.owner);
        let releasing = self.shared.book().session(claim.owner).map(Session::release);
        match releasing {
            Some(releasing) => releasing.await.map(drop),
            // An attempt that was given up has closed its connection.
            None => Ok(()),
        }
    }

    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let condition = format!("l.name = {}", text_literal(name.as_str()));
        let state = self.shared.states(&condition, 1).await?.pop();
        Ok(state.unwrap_or_else(|| LockState::new(name.clone(), None, None)))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        // The server's text knows no NUL, and no name has one.
        if prefix.contains('\0') {
            return Ok(Vec::new());
        }
        let condition = format!("starts_with(l.name, {})", text_literal(prefix));
        self.shared.states(&condition, limit.min(i64::MAX as usize)).await
    }

    async fn evict(&self, name: &LockName) -> Result<Option<Holder>, BackendError> {
        self.shared.end(&format!("l.name = {}", text_literal(name.as_str()))).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>, BackendError> {
        doctor::examine(&self.shared.server, true).await
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        let watch = self.shared.book().session(lease.owner()).map(Session::watch);
        watch.map(|watch| Box::pin(watch) as LossWatch)
    }
}

impl std::fmt::Debug for AdvisoryLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = &self.shared.server.place;
        f.debug_struct("AdvisoryLock").field("place", place).finish_non_exhaustive()
    }
}
