//! Locks as advisory locks of sessions of the server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};
use lock_core::backend::{Attempt, Claim, Extension, LossWatch, Release, Renewal, WaiterHandle};
use lock_core::{
    BackendError, Capabilities, DistributedLock, Finding, Holder, Lease, LockAdmin, LockError,
    LockName, LockState, Order, Outcome, OwnerId, Renewals, TokenDurability, Wakeup, Whom,
};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

use super::claim::{ClaimTask, Shared};
use super::claims::{ClaimHandle, Claims, Found};
use super::command::{Command, Standing, Tried};
use super::rows::Rows;
use super::sessions::Sessions;
use crate::doctor;
use crate::error::BACKEND;
use crate::fence::PostgresFence;
use crate::options::{Mode, PostgresOptions};
use crate::server::{Server, end_of_connecting};

/// Locks that are session-level advisory locks of a Postgres server.
///
/// Each hold has a connection of its own, and ends with it: a process that dies frees its locks 3.5 s after the server sees
/// its session end, when a holder that lives has noticed as well. The lock's key is the first 8 bytes of the SHA-256 of
/// `schema.table`, a zero byte and the
/// name; two names that share one by chance exclude each other, and nothing worse. A waiter has a
/// connection of its own as well, and waits in the server: first come, first served.
///
/// Sessions live on the runtime on which this was connected, and end with it. Needs a direct
/// connection to the primary, or a pooler that pools by session. See the
/// documentation of the crate for what it guarantees.
#[derive(Clone)]
pub struct AdvisoryBackend {
    shared: Arc<Shared>,
    claims: Arc<Claims>,
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
        server.forget_unused().await;
        let shared = Shared {
            sessions: Sessions::new(server.connections.options().clone(), options.connections),
            rows: Rows { server },
        };
        let (claims, runtime) = (Arc::new(Claims::new()), Handle::current());
        Ok(Self { shared: Arc::new(shared), claims, runtime })
    }

    /// The fence of a resource in this database.
    pub fn fence(&self, resource: impl Into<String>) -> PostgresFence {
        PostgresFence::new(self.shared.rows.server.clone(), resource.into())
    }

    /// Asks for the lock: the task of the claim, or one that is begun. `None` if the claim has just ended.
    async fn attempt(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Option<Attempt>, BackendError> {
        let begin = || self.begin(claim, waiter.cloned());
        let tried = match self.claims.alive_or(claim.owner, begin)? {
            Found::Begun(first) => first.await.map_err(|_| runtime_ended())?,
            Found::Alive(alive) => {
                let again = alive.ask(|reply| Command::Try(waiter.cloned(), reply)).await;
                let Some(tried) = again else { return Ok(None) };
                tried
            }
        };
        match tried {
            Tried::Answered(attempt) => attempt.map(Some),
            Tried::Waiting(process) => self.look(claim, process).await,
        }
    }

    /// Begins to look after a claim, on the runtime of the sessions: it comes to its end also if its caller
    /// leaves.
    fn begin(
        &self,
        claim: &Claim,
        waiter: Option<WaiterHandle>,
    ) -> (ClaimHandle, oneshot::Receiver<Tried>) {
        let (commands, receiver) = mpsc::unbounded_channel();
        let (standing, seen) = watch::channel(Standing::Pending);
        let (first, tried) = oneshot::channel();
        let (shared, claim) = (self.shared.clone(), claim.clone());
        let task = ClaimTask { shared, claim, waiter, standing, commands: receiver };
        let task = self.runtime.spawn(task.run(first));
        (ClaimHandle { commands, standing: seen, task }, tried)
    }

    /// What is known of the holder of a lock that our session waits for. A wait whose session is gone,
    /// which a network that swallows does not tell, is given up.
    async fn look(&self, claim: &Claim, process: i32) -> Result<Option<Attempt>, BackendError> {
        let seen = self.shared.rows.look(&claim.name, process).await?;
        if seen.is_none() {
            self.claims.forget(claim.owner);
        }
        Ok(seen.map(Attempt::Busy))
    }

    /// The claim of an owner that waits or holds.
    fn alive(&self, owner: OwnerId) -> Option<Arc<ClaimHandle>> {
        self.claims.known(owner).filter(|claim| !claim.is_over())
    }

    /// Extends a hold on its own session, or one of another client in its row.
    async fn extend_hold(&self, renewal: &Renewal) -> Result<Extension, BackendError> {
        let claim = self.alive(renewal.owner);
        match claim.filter(|claim| claim.holds(renewal.token)) {
            Some(claim) => claim.extend(renewal.token, renewal.ttl).await,
            None => self.shared.rows.extend(renewal).await,
        }
    }
}

fn runtime_ended() -> BackendError {
    let context = "the runtime that keeps the sessions has ended";
    BackendError::transient(BACKEND, Outcome::NotApplied, context, context)
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
            "a crash of the server or a failover ends all holds: others are let in at once, and two may \
             believe for up to 3 s, until the holders before have noticed; tokens still grow unless the \
             new server's clock is behind",
        )
    }

    async fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        loop {
            if let Some(attempt) = self.attempt(claim, waiter).await? {
                return Ok(attempt);
            }
        }
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        join_all(renewals.iter().map(|renewal| self.extend_hold(renewal))).await
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        if let Some(claim) = self.alive(owner) {
            let released = claim.release().await;
            self.claims.forget(owner);
            return released;
        }
        match self.shared.rows.end(name, owner).await? {
            Some(_) => Ok(Release::Released),
            None => Ok(Release::NotHeld),
        }
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        let claim = self.claims.known(lease.owner());
        Some(match claim.filter(|claim| claim.is_over() || claim.holds(lease.token())) {
            Some(claim) => Box::pin(claim.watch()),
            None => Box::pin(self.shared.rows.watch(lease)),
        })
    }

    async fn withdraw(&self, _name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        // C19: from here on every request of the claims is refused.
        owners.iter().for_each(|owner| self.claims.withdraw(*owner));
        let held = owners.iter().filter_map(|owner| self.alive(*owner));
        try_join_all(held.map(|claim| async move { claim.release().await })).await.map(drop)
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }
}

#[async_trait]
impl LockAdmin for AdvisoryBackend {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let state = self.shared.rows.states(name.as_str(), true, 1).await?.pop();
        Ok(state.unwrap_or_else(|| LockState::new(name.clone(), None, None)))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        // The server's text knows no NUL, and no name has one.
        if prefix.contains('\0') {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.shared.rows.states(prefix, false, limit).await
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        Ok(self.shared.rows.evict(name, whom).await?.into_iter().collect())
    }

    async fn doctor(&self, _prefix: &str) -> Result<Vec<Finding>, BackendError> {
        doctor::examine(&self.shared.rows.server).await
    }
}

impl std::fmt::Debug for AdvisoryBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = &self.shared.rows.server.names;
        f.debug_struct("AdvisoryBackend").field("names", names).finish_non_exhaustive()
    }
}
