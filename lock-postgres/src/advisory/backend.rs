//! Locks as advisory locks of sessions of the server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use lock_core::backend::{Attempt, Claim, Extension, LossWatch, Release, Renewal, WaiterHandle};
use lock_core::{
    BackendError, Capabilities, DistributedLock, Finding, Holder, Lease, LockAdmin, LockError,
    LockName, LockState, Order, OwnerId, Renewals, TokenDurability, Wakeup,
};

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};

use super::claim_handle::{Callers, ClaimHandle, End, Standing};
use super::claim_task::ClaimTask;
use super::holds::Holds;
use super::registry::Registry;
use super::shared::Shared;
use super::spares::Spares;
use crate::doctor;
use crate::error::BACKEND;
use crate::fence::PostgresFence;
use crate::options::{Mode, PostgresOptions};
use crate::server::{Server, end_of_connecting};

/// Locks that are session-level advisory locks of a Postgres server.
///
/// Each hold has a connection of its own, and ends with it: a process that dies frees its locks at
/// once. The lock's key is the first 8 bytes of the SHA-256 of `schema.table`, a zero byte and the
/// name; two names that share one by chance exclude each other, and nothing worse. A waiter has a
/// connection of its own as well, and waits in the server: first come, first served.
///
/// Sessions live on the runtime on which this was connected, and end with it. Needs a direct
/// connection to the primary, or a pooler that pools by session. See the
/// documentation of the crate for what it guarantees.
#[derive(Clone)]
pub struct AdvisoryBackend {
    shared: Arc<Shared>,
    registry: Arc<Registry>,
    /// Where the sessions live.
    runtime: Handle,
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
        let end = end_of_connecting();
        let server = Server::connect(options, Mode::Advisory).await?;
        if !server.is_direct() {
            return Err(refused("a pooler gives each transaction another session"));
        }
        if server.is_standby(end).await? {
            return Err(refused("the server is a standby, whose advisory locks are its own"));
        }
        let shared = Shared {
            holds: Holds { server },
            spares: Spares::new(options.connections),
            attempts: Semaphore::new(options.connections),
        };
        let (registry, runtime) = (Arc::new(Registry::new()), Handle::current());
        Ok(Self { shared: Arc::new(shared), registry, runtime })
    }

    /// The fence of a resource in this database.
    pub fn fence(&self, resource: impl Into<String>) -> PostgresFence {
        PostgresFence::new(self.shared.holds.server.clone(), resource.into())
    }

    /// Begins to look after a claim, on the runtime of the sessions: it comes to its end also if its caller
    /// leaves.
    fn begin(&self, claim: &Claim, waits: bool) -> ClaimHandle {
        let (commands, receiver) = mpsc::channel(16);
        let (standing, seen) = watch::channel(Standing::Trying);
        let callers = Arc::new(Callers::default());
        let task = ClaimTask {
            shared: self.shared.clone(),
            claim: claim.clone(),
            waits,
            callers: callers.clone(),
            standing,
            commands: receiver,
        };
        ClaimHandle { callers, commands, standing: seen, task: self.runtime.spawn(task.run()) }
    }

    /// How the claim of an owner stands, which is begun if there is none; `None` if it has just ended.
    async fn attempt(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Option<Attempt>, BackendError> {
        let begin = || self.begin(claim, waiter.is_some());
        let (handle, is_new) = self.registry.alive_or(claim.owner, begin)?;
        match handle.tried(waiter).await {
            Standing::Held(grant) if is_new.0 => Ok(Some(handle.grant(grant))),
            Standing::Held(grant) => handle.grant_again(&grant, claim.ttl).await,
            Standing::Waiting(process, _) if !is_new.0 => self.look(claim, process).await,
            Standing::Waiting(_, seen) | Standing::Over(End::Busy(seen)) => {
                Ok(Some(Attempt::Busy(seen)))
            }
            Standing::Over(End::Failed(error)) => Err(error),
            Standing::Over(End::Lost(_)) | Standing::Trying => Ok(None),
        }
    }

    /// What is known of the holder of a lock that our session waits for. A wait whose session is gone,
    /// which a network that swallows does not tell, is given up.
    async fn look(&self, claim: &Claim, process: i32) -> Result<Option<Attempt>, BackendError> {
        let seen = self.shared.holds.look(&claim.name, process).await?;
        Ok(seen.map(Attempt::Busy))
    }

    /// Extends a hold on its own session, or one of another client in its row.
    async fn extend_one(&self, renewal: &Renewal) -> Result<Extension, BackendError> {
        let claim = self.registry.alive(renewal.owner);
        match claim.filter(|claim| claim.holds(renewal.token)) {
            Some(claim) => claim.extend(renewal.token, renewal.ttl).await,
            None => self.shared.holds.extend(renewal).await,
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
            Order::Fifo,
            Wakeup::Push,
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
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        loop {
            if let Some(attempt) = self.attempt(claim, waiter).await? {
                return Ok(attempt);
            }
            // The hold that the owner had is over.
            self.registry.unregister(claim.owner);
        }
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        join_all(renewals.iter().map(|renewal| self.extend_one(renewal))).await
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        if let Some(claim) = self.registry.alive(owner) {
            let released = claim.release().await;
            self.registry.unregister(owner);
            return released;
        }
        match self.shared.holds.end(name, Some(owner)).await? {
            Some(_) => Ok(Release::Released),
            None => Ok(Release::NotHeld),
        }
    }

    async fn withdraw(&self, _name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        // C19: from here on every request of the claim is refused.
        self.registry.withdraw(owner);
        match self.registry.alive(owner) {
            Some(claim) => claim.release().await.map(drop),
            None => Ok(()),
        }
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        let claim = self.registry.known(lease.owner());
        Some(match claim.filter(|claim| claim.is_over() || claim.holds(lease.token())) {
            Some(claim) => Box::pin(claim.watch()),
            None => Box::pin(self.shared.holds.watch(lease)),
        })
    }
}

#[async_trait]
impl LockAdmin for AdvisoryBackend {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let state = self.shared.holds.states(name.as_str(), true, 1).await?.pop();
        Ok(state.unwrap_or_else(|| LockState::new(name.clone(), None, None)))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        // The server's text knows no NUL, and no name has one.
        if prefix.contains('\0') {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.shared.holds.states(prefix, false, limit).await
    }

    async fn evict(&self, name: &LockName) -> Result<Option<Holder>, BackendError> {
        self.shared.holds.end(name, None).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>, BackendError> {
        doctor::examine(&self.shared.holds.server).await
    }
}

impl std::fmt::Debug for AdvisoryBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = &self.shared.holds.server.names;
        f.debug_struct("AdvisoryBackend").field("names", names).finish_non_exhaustive()
    }
}
