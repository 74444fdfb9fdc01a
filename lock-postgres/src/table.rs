//! Locks as rows of a table: each operation one statement, and one round trip.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{
    Attempt, Claim, Extension, Notifications, Release, Renewal, WaiterHandle,
};
use lock_core::{
    BackendError, Capabilities, DistributedLock, Finding, Holder, LockAdmin, LockError, LockName,
    LockState, Order, OwnerId, Renewals, TokenDurability, Wakeup,
};

use crate::doctor;
use crate::error::BACKEND;
use crate::fence::PostgresFence;
use crate::options::PostgresOptions;
use crate::push::Listener;
use crate::reply;
use crate::server::{Server, end_of_connecting};
use crate::sql::{Flag, owner_literal, text_literal};

/// How often a waiter looks that nobody can push to.
const POLL: Duration = Duration::from_millis(100);

/// Locks that are rows of a table in a Postgres database. The main mode.
///
/// A held lock costs no connection, works through a transaction pooler, and survives a crash of the
/// server. Clones share a few connections for requests and, once one of them waits, a session that
/// listens for pushed grants. See the [crate documentation](crate) for what it guarantees.
#[derive(Clone)]
pub struct PostgresLock {
    server: Server,
    /// Where the server can reach us.
    push: Option<Arc<Notifications<Listener>>>,
}

impl PostgresLock {
    /// Connects to the database at `url`, makes sure that it answers, and makes the schema if it is
    /// missing and the user may: [`PostgresOptions`] says more.
    ///
    /// # Errors
    /// As [`PostgresOptions::connect`].
    ///
    /// # Cancel safety
    /// As [`PostgresOptions::connect`].
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        PostgresOptions::new(url).connect().await
    }

    pub(crate) async fn with_options(options: &PostgresOptions) -> Result<Self, LockError> {
        let server = Server::new(options)?;
        let end = end_of_connecting();
        server.ensure_schema(end).await?;
        let reachable = !server.is_pooled(end).await?;
        let push =
            || Arc::new(Notifications::new(Listener::new(server.connections.options().clone())));
        Ok(Self { push: reachable.then(push), server })
    }

    /// Makes the tables and functions, or what of them is missing. [`connect`](Self::connect) does so
    /// by itself; this is for after an upgrade of the library beside a running one.
    ///
    /// # Errors
    /// [`LockError::Config`] if the user may not, [`LockError::Backend`] if the server cannot be
    /// reached, refuses or does not answer, or if others keep us from it for too long: it gives up
    /// within 10 s.
    ///
    /// # Cancel safety
    /// It is one transaction: after a drop all of it is done, or nothing.
    pub async fn migrate(&self) -> Result<(), LockError> {
        self.server.migrate().await
    }

    /// The fence of a resource in this database.
    pub fn fence(&self, resource: impl Into<String>) -> PostgresFence {
        PostgresFence::new(self.server.clone(), resource.into())
    }

    async fn try_once(&self, claim: &Claim, place: Waiting) -> Result<Attempt, BackendError> {
        let (queues, listener) = match place {
            Waiting::No => (false, None),
            Waiting::Polling => (true, None),
            Waiting::Listening(session) => (true, Some(session)),
        };
        let call = self.server.call("acquire").text(claim.name.as_str()).owner(claim.owner);
        let call = call.number(millis(claim.ttl.as_millis())).text(claim.label.as_str());
        let call = call.flag(Flag(queues)).optional(listener).number(self.server.clock_limit());
        reply::attempt(claim, &self.server.row(call.end(), "the answer to an acquire").await?)
    }

    /// How the claim of `waiter` can wait as things are: `None` if its session is yet to be opened.
    fn waiting(&self, owner: OwnerId, waiter: Option<&WaiterHandle>) -> Option<Waiting> {
        match (waiter, &self.push) {
            (None, _) => Some(Waiting::No),
            (Some(_), None) => Some(Waiting::Polling),
            (Some(waiter), Some(push)) => push.register(owner, waiter).map(Waiting::Listening),
        }
    }
}

/// Whether and how a claim queues.
#[derive(Clone, Copy)]
enum Waiting {
    No,
    Polling,
    Listening(i64),
}

#[async_trait]
impl DistributedLock for PostgresLock {
    fn capabilities(&self) -> Capabilities {
        let wakeup = if self.push.is_some() { Wakeup::Push } else { Wakeup::Poll(POLL) };
        Capabilities::new(
            BACKEND,
            Order::Fifo,
            wakeup,
            Renewals::Batched,
            TokenDurability::CounterAndClock,
            Duration::from_millis(1),
            "a failover to a standby that lacks the last commits can grant a lock twice; tokens \
             still grow unless the new server's clock is behind",
        )
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let waiting = self.waiting(claim.owner, waiter);
        let mut attempt = self.try_once(claim, waiting.unwrap_or(Waiting::No)).await?;
        if let (Attempt::Busy(_), None, Some(push)) = (&attempt, waiting, &self.push) {
            // It listens first and queues after: else the grant could be sent in between. A waiter
            // that cannot be reached polls.
            push.open().await?;
            let waiting = self.waiting(claim.owner, waiter).unwrap_or(Waiting::Polling);
            attempt = self.try_once(claim, waiting).await?;
        }
        if let (Attempt::Granted(_), Some(push)) = (&attempt, &self.push) {
            push.unregister(claim.owner);
        }
        Ok(attempt)
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        let names = renewals.iter().map(|renewal| text_literal(renewal.name.as_str()));
        let owners = renewals.iter().map(|renewal| owner_literal(renewal.owner));
        let tokens = renewals.iter().map(|renewal| renewal.token.to_string());
        let ttls = renewals.iter().map(|renewal| renewal.ttl.as_millis().to_string());
        let call = self.server.call("extend").array("text", names).array("uuid", owners);
        let call = call.array("bigint", tokens).array("bigint", ttls).end();
        let answers = self.server.row(call, "renewals").await;
        let answers = answers.and_then(|row| reply::get::<String>(&row, 0, "renewals"));
        match answers {
            Ok(answers) => {
                let extension = |(answer, renewal): (char, &Renewal)| match answer {
                    '1' => Extension::Extended(renewal.ttl.as_duration()),
                    _ => Extension::Lost,
                };
                answers.chars().zip(renewals).map(extension).map(Ok).collect()
            }
            Err(error) => renewals.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        const WHAT: &str = "the answer to a release";
        let call = self.server.call("release").text(name.as_str()).owner(owner);
        let row = self.server.row(call.number(self.server.clock_limit()).end(), WHAT).await?;
        match reply::get(&row, 0, WHAT)? {
            true => Ok(Release::Released),
            false => Ok(Release::NotHeld),
        }
    }

    async fn withdraw(&self, name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        if let Some(push) = &self.push {
            push.unregister(owner);
        }
        let call = self.server.call("withdraw").text(name.as_str()).owner(owner);
        self.server.rows(call.number(self.server.clock_limit()).end()).await.map(drop)
    }
}

#[async_trait]
impl LockAdmin for PostgresLock {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let call = self.server.call("list").text(name.as_str()).flag(Flag(true)).number(1).end();
        match self.server.rows(call).await?.first() {
            Some(row) => reply::state(row),
            None => Ok(LockState::new(name.clone(), None, Some(0))),
        }
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        // The server's text knows no NUL, and no name has one.
        if prefix.contains('\0') {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let call = self.server.call("list").text(prefix).flag(Flag(false)).number(limit).end();
        self.server.rows(call).await?.iter().map(reply::state).collect()
    }

    async fn evict(&self, name: &LockName) -> Result<Option<Holder>, BackendError> {
        let call = self.server.call("evict").text(name.as_str());
        let rows = self.server.rows(call.number(self.server.clock_limit()).end()).await?;
        rows.first().map_or(Ok(None), reply::holder)
    }

    async fn doctor(&self) -> Result<Vec<Finding>, BackendError> {
        doctor::examine(&self.server, self.push.is_some()).await
    }
}

/// A TTL as the server takes it.
fn millis(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}

impl std::fmt::Debug for PostgresLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresLock").field("place", &self.server.place).finish_non_exhaustive()
    }
}
