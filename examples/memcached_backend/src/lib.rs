#![doc = include_str!("../README.md")]

mod doctor;
mod server;

use lock_core::backend::RecordsRuns;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{
    Attempt, Claim, Extension, Record, Recording, Register, Release, Renewal, UrlParameters,
    WaiterHandle, async_trait,
};
use lock_core::{
    BackendError, Capabilities, DistributedLock, Finding, Holder, LockAdmin, LockError, LockName,
    LockState, Occurrence, Order, OwnerId, RecordedRun, Renewals, TokenDurability, Ttl, Wakeup,
    Whom,
};

use crate::server::{BACKEND, Server};

/// Locks on a Memcached server. Clones share two connections, each of which carries one request at a time.
#[derive(Clone)]
pub struct MemcachedBackend {
    server: Arc<Server>,
    /// Reaches that server by a connection of its own, so that a crowd of waiters does not delay renewals (C12).
    renewals: Arc<Server>,
}

impl MemcachedBackend {
    /// Connects to the locks at `memcached://HOST[:PORT]`. Dropping the future closes the connection.
    ///
    /// # Errors
    /// [`LockError::Config`] if the URL cannot be used; the error does not repeat it. [`LockError::Backend`] if
    /// the server cannot be reached.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        let parameters = UrlParameters::of(url);
        parameters.refuse_unknown()?;
        let address = parameters.base().strip_prefix("memcached://").unwrap_or_default();
        let address = address.trim_end_matches('/');
        if address.is_empty() || address.contains(['/', '@']) {
            let message = "locks on Memcached are at memcached://HOST[:PORT]".to_owned();
            return Err(LockError::Config { message });
        }
        let connect = || Server::connect(address);
        match tokio::try_join!(connect(), connect()) {
            Ok((server, renewals)) => Ok(Self { server: server.into(), renewals: renewals.into() }),
            Err(source) => Err(LockError::Backend { operation: "connect", name: None, source }),
        }
    }
}

#[async_trait]
impl DistributedLock for MemcachedBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(
            BACKEND,
            Order::Unordered,
            Wakeup::Poll(Duration::from_millis(100)),
            Renewals::Single,
            TokenDurability::CounterAndClock,
            Duration::from_secs(1),
            "a restart loses all locks, and a full server any of them: two may then hold one, until \
             the first one renews",
        )
    }

    async fn acquire(
        &self,
        claim: &Claim,
        _: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let mut claim = claim.clone();
        claim.ttl = whole_seconds(claim.ttl);
        self.server
            .change(&claim.name, |register, at| register.acquire(BACKEND, &claim, at))
            .await?
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        let mut answers = Vec::new();
        for mut renewal in renewals.iter().cloned() {
            renewal.ttl = whole_seconds(renewal.ttl);
            let extend = |register: &mut Register, at| register.extend(&renewal, at);
            answers.push(self.renewals.change(&renewal.name, extend).await);
        }
        answers
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.server.change(name, |register, at| register.release(owner, at)).await
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        let withdraw = |register: &mut Register, at| {
            owners.iter().for_each(|owner| register.withdraw(*owner, at));
        };
        self.server.change(name, withdraw).await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    fn run_records(&self) -> Option<&dyn RecordsRuns> {
        Some(self)
    }
}

#[async_trait]
impl RecordsRuns for MemcachedBackend {
    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        self.server.change(&record.name, |register, at| register.record(record, at)).await
    }

    async fn runs(
        &self,
        name: &LockName,
        of: Option<&Occurrence>,
    ) -> Result<Vec<RecordedRun>, BackendError> {
        self.server.read(name).await.map(|seen| seen.register.runs(of, seen.at))
    }

    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Result<bool, BackendError> {
        self.server.change(name, |register, at| register.forget(occurrence, at)).await
    }
}

#[async_trait]
impl LockAdmin for MemcachedBackend {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        self.server.read(name).await.map(|seen| seen.register.state(seen.at))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        let all = self.server.all().await?;
        let states = all.iter().map(|seen| seen.register.state(seen.at));
        Ok(LockState::listed(states, prefix, limit))
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        self.server.change(name, |lock, at| lock.evict(whom, at)).await
    }

    async fn doctor(&self, _prefix: &str) -> Result<Vec<Finding>, BackendError> {
        doctor::examine(&self.server).await
    }
}

impl fmt::Debug for MemcachedBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemcachedBackend").field(&self.server.address).finish()
    }
}

/// C4: rounds up, since the server counts seconds.
fn whole_seconds(ttl: Ttl) -> Ttl {
    Ttl::new(Duration::from_secs(ttl.as_millis().div_ceil(1000))).unwrap_or(Ttl::MAX)
}
