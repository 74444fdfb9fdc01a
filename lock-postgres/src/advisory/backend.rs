//! Locks as advisory locks of sessions of the server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use lock_core::backend::{
    Attempt, Claim, Extension, Grant, LossWatch, Release, Renewal, WaiterHandle,
};
use lock_core::{
    BackendError, Capabilities, DistributedLock, Finding, Holder, Lease, LockAdmin, LockError,
    LockName, LockState, Order, OwnerId, Renewals, TokenDurability, Wakeup,
};

use super::attempt::Attempts;
use super::holds::Holds;
use super::registry::Registry;
use super::rows::{NOT_OVER, named, owned};
use crate::doctor;
use crate::error::BACKEND;
use crate::fence::PostgresFence;
use crate::options::{Mode, PostgresOptions};
use crate::server::{Server, end_of_connecting};
use crate::sql::text_literal;

/// How often a waiter looks.
const POLL: Duration = Duration::from_millis(50);

/// Locks that are session-level advisory locks of a Postgres server.
///
/// Each hold has a connection of its own, and ends with it: a process that dies frees its locks at
/// once. The lock's key is the first 8 bytes of the SHA-256 of `schema.table`, a zero byte and the
/// name; two names that share one by chance exclude each other, and nothing worse. Waiters poll, and
/// come in any order.
///
/// Sessions live on the runtime on which this was connected, and end with it. Needs a direct
/// connection to the primary, or a pooler that pools by session. See the
/// documentation of the crate for what it guarantees.
#[derive(Clone)]
pub struct AdvisoryBackend {
    holds: Holds,
    registry: Arc<Registry>,
    attempts: Arc<Attempts>,
}

impl AdvisoryBackend {
    /// Connects to the database at `url`: [`PostgresOptions`] says more.
    ///
    /// # Errors
    /// As [`PostgresOptions::connect_advisory`].
    ///
    /// # Cancel safety
    /// As [`PostgresOptions::connect_advisory`].
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        Self::with_options(&PostgresOptions::new(url)).await
    }

    pub(crate) async fn with_options(options: &PostgresOptions) -> Result<Self, LockError> {
        let server = Server::new(options, Mode::Advisory)?;
        let end = end_of_connecting();
        server.ensure_schema(end).await?;
        if server.is_pooled(end).await? {
            return Err(refused("a pooler gives each transaction another session"));
        }
        if server.is_standby(end).await? {
            return Err(refused("the server is a standby, whose advisory locks are its own"));
        }
        let (holds, registry) = (Holds { server }, Arc::new(Registry::new()));
        let attempts = Attempts::new(holds.clone(), registry.clone(), options.connections);
        Ok(Self { holds, registry, attempts: Arc::new(attempts) })
    }

    /// The fence of a resource in this database.
    pub fn fence(&self, resource: impl Into<String>) -> PostgresFence {
        PostgresFence::new(self.holds.server.clone(), resource.into())
    }

    /// Extends a hold on its own session, or one of another client in its row.
    async fn extend_one(&self, renewal: &Renewal) -> Result<Extension, BackendError> {
        let session = self.registry.holding(renewal.owner);
        match session.filter(|session| session.held.token == renewal.token) {
            Some(session) => session.extend(renewal.ttl).await,
            None => self.holds.extend(renewal).await,
        }
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

#[async_trait]
impl DistributedLock for AdvisoryBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(
            BACKEND,
            Order::Unordered,
            Wakeup::Poll(POLL),
            Renewals::Batched,
            TokenDurability::CounterAndClock,
            Duration::from_millis(1),
            "a restart of the server ends all holds at once; a failover to a standby that lacks the \
             last commits grants them anew, with greater tokens unless its clock is behind",
        )
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        _waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        self.registry.admit(claim.owner)?;
        if let Some(session) = self.registry.holding(claim.owner)
            && let Extension::Extended(ttl) = session.extend(claim.ttl).await?
        {
            return Ok(Attempt::Granted(Grant::new(session.held.token, ttl)));
        }
        self.attempts.make(claim).await
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        join_all(renewals.iter().map(|renewal| self.extend_one(renewal))).await
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        if let Some(session) = self.registry.holding(owner) {
            let released = session.release().await;
            self.registry.unregister(owner);
            return released;
        }
        match self.holds.end(&format!("{} AND {NOT_OVER}", owned(name, owner))).await? {
            Some(_) => Ok(Release::Released),
            None => Ok(Release::NotHeld),
        }
    }

    async fn withdraw(&self, _name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        self.registry.withdraw(owner);
        match self.registry.holding(owner) {
            Some(session) => session.release().await.map(drop),
            // An attempt that was given up has closed its connection.
            None => Ok(()),
        }
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        let session = self.registry.session(lease.owner());
        Some(match session.filter(|session| session.held.token == lease.token()) {
            Some(session) => Box::pin(session.watch()),
            None => Box::pin(self.holds.watch(lease)),
        })
    }
}

#[async_trait]
impl LockAdmin for AdvisoryBackend {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let state = self.holds.states(&named(name), 1).await?.pop();
        Ok(state.unwrap_or_else(|| LockState::new(name.clone(), None, None)))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        // The server's text knows no NUL, and no name has one.
        if prefix.contains('\0') {
            return Ok(Vec::new());
        }
        let condition = format!("starts_with(l.name, {})", text_literal(prefix));
        self.holds.states(&condition, limit.min(i64::MAX as usize)).await
    }

    async fn evict(&self, name: &LockName) -> Result<Option<Holder>, BackendError> {
        self.holds.end(&named(name)).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>, BackendError> {
        doctor::examine(&self.holds.server, true).await
    }
}

impl std::fmt::Debug for AdvisoryBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = &self.holds.server.names;
        f.debug_struct("AdvisoryBackend").field("names", names).finish_non_exhaustive()
    }
}
