//! Locks as rows of a table: each operation one statement, and one round trip.

mod abilities;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use lock_core::backend::{
    Attempt, Batches, Claim, Extension, Notifications, RecordsRuns, Release, Renewal,
    ReservesTokens, WaiterHandle,
};
use lock_core::{
    BackendError, Capabilities, DistributedLock, Kind, Kinds, LockAdmin, LockError, LockName,
    Order, OwnerId, Renewals, TokenDurability, Ttl, Wakeup,
};
use sqlx::postgres::PgRow;

use super::answers;
use super::listener::Listener;
use crate::error::BACKEND;
use crate::fence::PostgresFence;
use crate::options::PostgresOptions;
use crate::reply;
use crate::server::Server;
use crate::sql::Call;

const RELEASE: &str = "the answer to a release";

/// Columns of a release that notifies the next holders within its transaction.
const RELEASED_AND_TOLD: &str = "released, (SELECT pg_catalog.count(pg_catalog.pg_notify(channel, message)) \
    FROM unnest(channels, messages) t (channel, message))";

/// Interval of a waiter's looks where no notification reaches it.
const POLL: Duration = Duration::from_millis(100);

/// Locks that are rows of a table in a Postgres database.
///
/// A held lock needs no connection of its own, works through a transaction pooler, and survives a crash of the
/// server. Clones share a few connections for requests. Once one of them waits, they also share a session that
/// listens for pushed grants. The documentation of the crate has the guarantees.
#[derive(Clone)]
pub struct PostgresBackend {
    server: Server,
    /// Tells waiters of their grants; `None` behind a pooler.
    push: Option<Arc<Notifications<Listener>>>,
    acquires: Arc<Batches<Claim, Attempt>>,
    releases: Arc<Batches<(LockName, OwnerId), Release>>,
}

impl PostgresBackend {
    /// Connects to the database at `url`, waits for its answer, and makes the schema if it is missing and the
    /// user may. [`PostgresOptions`] has the details.
    ///
    /// # Errors
    /// As [`PostgresOptions::connect`].
    ///
    /// # Cancel safety
    /// As [`PostgresOptions::connect`].
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        Self::with_options(&PostgresOptions::new(url)).await
    }

    pub(crate) async fn with_options(options: &PostgresOptions) -> Result<Self, LockError> {
        let settings = options.read()?;
        let server = Server::connect(options, &settings).await?;
        let listens = || Arc::new(Notifications::new(Listener::new(server.clone())));
        let push = server.is_direct().then(listens);
        let (acquires, releases) = Default::default();
        Ok(Self { server, push, acquires, releases })
    }

    /// Makes the tables and functions, or the missing ones. [`connect`](Self::connect) does so by itself; call
    /// this after an upgrade of the library beside a running one.
    ///
    /// # Errors
    /// [`LockError::Backend`] if the user lacks the rights, if the server cannot be reached, refuses or does not
    /// answer, or if other transactions keep the client from it: it gives up within 10 s.
    ///
    /// # Cancel safety
    /// One transaction: after a drop all of it is done, or nothing.
    pub async fn migrate(&self) -> Result<(), LockError> {
        self.server.migrate().await
    }

    /// Returns the fence of a resource in this database.
    pub fn fence(&self, resource: impl Into<String>) -> PostgresFence {
        PostgresFence::new(self.server.clone(), resource.into())
    }

    /// Tries once. A claim that queues is notified of its turn on the channel `listener`, if there is one.
    async fn try_once(
        &self,
        claim: &Claim,
        queues: bool,
        listener: Option<i64>,
    ) -> Result<Attempt, BackendError> {
        let call = self.server.call("acquire").text(claim.name.as_str()).owner(claim.owner);
        let call = of_kind(call.number(millis(claim.ttl)).text(claim.label.as_str()), claim.kind);
        let call = call.flag(queues).optional(listener).number(self.server.clock_limit());
        let rows = self.server.connections.attempt(&claim.name, &call).await;
        let row = reply::only(
            rows.map_err(|error| self.server.failed(error))?,
            "the answer to an acquire",
        )?;
        answers::attempt(claim, &row)
    }

    /// Ends a hold, and hands the lock over, by one request that notifies the next holder after the commit.
    ///
    /// Behind a pooler a text with settings before it is one transaction, which cannot commit in between. So it
    /// notifies within the commit, and only clients that connect directly, so that few releases do.
    async fn release_alone(
        &self,
        name: &LockName,
        owner: OwnerId,
    ) -> Result<Release, BackendError> {
        let names = &self.server.names;
        let call = match self.server.is_direct() {
            true => Call::of_procedure(&names.function("release_and_tell")),
            false => Call::of_columns(RELEASED_AND_TOLD, &names.function("release")),
        };
        let call = call.text(name.as_str()).owner(owner).number(self.server.clock_limit());
        released(&self.server.row(&call, RELEASE).await?)
    }

    async fn extend_all(
        &self,
        renewals: &[Renewal],
    ) -> Result<Vec<Result<Extension, BackendError>>, BackendError> {
        let call = self.server.call("extend");
        let call = call.texts(renewals.iter().map(|renewal| renewal.name.as_str()));
        let call = call.owners(renewals.iter().map(|renewal| renewal.owner));
        let tokens = renewals.iter().map(|renewal| renewal.token.get());
        let call = call.numbers(tokens.map(|token| i64::try_from(token).unwrap_or(i64::MAX)));
        let call = call.numbers(renewals.iter().map(|renewal| millis(renewal.ttl)));
        let answers: String = reply::get(&self.server.renew(&call).await?, 0, "renewals")?;
        Ok(answers::extensions(renewals, &answers))
    }

    /// Tries, and takes a place in the queue if there is a waiter to wake.
    async fn try_alone(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let (Some(waiter), Some(push)) = (waiter, &self.push) else {
            return self.try_once(claim, waiter.is_some(), None).await;
        };
        match push.register(claim.owner, waiter) {
            None => self.try_before_listening(claim, waiter, push).await,
            channel => self.try_once(claim, true, channel).await,
        }
    }

    /// Tries; if the lock is busy, opens the session that listens and queues the claim.
    async fn try_before_listening(
        &self,
        claim: &Claim,
        waiter: &WaiterHandle,
        push: &Notifications<Listener>,
    ) -> Result<Attempt, BackendError> {
        let attempt = self.try_once(claim, false, None).await?;
        let Attempt::Busy(_) = attempt else { return Ok(attempt) };
        // C28: listens first and queues after, since a grant made in between would be missed. A waiter whose
        // session cannot be opened in time polls.
        _ = push.open().await;
        let channel = push.register(claim.owner, waiter);
        self.try_once(claim, true, channel).await
    }
}

#[async_trait]
impl DistributedLock for PostgresBackend {
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
        .with_kinds(Kinds::Permits)
    }

    async fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let alone = self.try_alone(claim, waiter);
        let attempt = match claim.kind {
            Kind::Exclusive => {
                let server = self.server.clone();
                let together = |claims| acquire_together(server, claims).boxed();
                self.acquires.ask(claim.name.as_str(), || claim.clone(), alone, together).await?
            }
            _ => alone.await?,
        };
        if let (Attempt::Granted(_), Some(_), Some(push)) = (&attempt, waiter, &self.push) {
            push.unregister(claim.owner);
        }
        Ok(attempt)
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        match self.extend_all(renewals).await {
            Ok(extensions) => extensions,
            Err(error) => renewals.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        let alone = self.release_alone(name, owner);
        let server = self.server.clone();
        let together = |holds| release_together(server, holds).boxed();
        let released =
            self.releases.ask(name.as_str(), || (name.clone(), owner), alone, together).await?;
        self.server.forget_now_and_then().await;
        Ok(released)
    }

    async fn close(&self) -> Result<(), BackendError> {
        // C20, C26: closes idle connections only. Other clients of this backend open new ones on demand.
        self.server.connections.give_up_all();
        Ok(())
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        if let Some(push) = &self.push {
            owners.iter().for_each(|owner| push.unregister(*owner));
        }
        let call = self.server.call("withdraw").text(name.as_str());
        let call = call.owners(owners.iter().copied());
        self.server.rows(&call.number(self.server.clock_limit())).await?;
        self.server.forget_now_and_then().await;
        Ok(())
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    fn token_ranges(&self) -> Option<&dyn ReservesTokens> {
        Some(self)
    }

    fn run_records(&self) -> Option<&dyn RecordsRuns> {
        Some(self)
    }
}

/// Requests an exclusive hold of several locks, each for another caller.
async fn acquire_together(
    server: Server,
    claims: Vec<Claim>,
) -> Result<Vec<Option<Attempt>>, BackendError> {
    let call = server.call("acquire_together");
    let call = call.texts(claims.iter().map(|claim| claim.name.as_str()));
    let call = call.owners(claims.iter().map(|claim| claim.owner));
    let call = call.numbers(claims.iter().map(|claim| millis(claim.ttl)));
    let call = call.texts(claims.iter().map(|claim| claim.label.as_str()));
    let call = call.number(server.clock_limit());
    answers::granted_together(&claims, &server.rows(&call).await?)
}

/// Adds the number of permits of the lock, null for an exclusive hold, and the number of wanted permits.
fn of_kind(call: Call, kind: Kind) -> Call {
    let permits = (kind != Kind::Exclusive).then(|| kind.permits().into());
    call.optional(permits).number(kind.slots().into())
}

/// Reads the answer to a release.
fn released(row: &PgRow) -> Result<Release, BackendError> {
    Ok(if reply::get(row, 0, RELEASE)? { Release::Released } else { Release::NotHeld })
}

/// Ends several holds.
async fn release_together(
    server: Server,
    holds: Vec<(LockName, OwnerId)>,
) -> Result<Vec<Option<Release>>, BackendError> {
    let call = server.call("release_together").texts(holds.iter().map(|(name, _)| name.as_str()));
    let call = call.owners(holds.iter().map(|(_, owner)| *owner));
    answers::released_together(&holds, &server.rows(&call).await?)
}

/// Converts a TTL for the server.
fn millis(ttl: Ttl) -> i64 {
    i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX)
}

impl std::fmt::Debug for PostgresBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresBackend").field("names", &self.server.names).finish_non_exhaustive()
    }
}
