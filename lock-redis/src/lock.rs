//! The trait's operations, each one script and one round trip.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{
    Attempt, Claim, ClockLimit, Extension, Notifications, Release, Renewal, WaiterHandle,
};
use lock_core::{
    BackendError, Capabilities, DistributedLock, Finding, Holder, LockAdmin, LockError, LockName,
    LockState, Order, OwnerId, Renewals, TokenDurability, Wakeup,
};

use crate::connection::Connection;
use crate::doctor;
use crate::error::{BACKEND, unreadable};
use crate::fence::RedisFence;
use crate::keys::{self, Keys};
use crate::options::RedisOptions;
use crate::push::Subscriber;
use crate::reply;
use crate::scripts::{ACQUIRE, EVICT, EXTEND, INSPECT, RELEASE, WITHDRAW};
use crate::server::Server;

/// What a waiter gives for a channel that queues and looks for itself; see `common.lua`.
const POLLED: &str = "poll";

/// How many keys one step of a listing looks at.
const SCAN_STEP: usize = 1000;

/// How many locks one request of a listing looks at.
const INSPECT_STEP: usize = 100;

/// Locks on one logical Redis server, or one that speaks its protocol.
///
/// Clones share one connection for requests and, once one of them waits, one for pushed grants.
/// See the [crate documentation](crate) for what it guarantees.
#[derive(Clone)]
pub struct RedisLock {
    pub(crate) server: Arc<Server>,
    pub(crate) push: Arc<Notifications<Subscriber>>,
    pub(crate) channel: Arc<str>,
    prefix: Arc<str>,
    clock: ClockLimit,
}

impl RedisLock {
    /// Connects to the server at `url`, and makes sure that it answers.
    ///
    /// # Errors
    /// - [`LockError::Config`] if the URL cannot be used. It is not repeated in the text, since it
    ///   may hold a password.
    /// - [`LockError::Backend`] if the server cannot be reached or refuses us.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        RedisOptions::new(url).connect().await
    }

    pub(crate) async fn with_options(options: RedisOptions) -> Result<Self, LockError> {
        let client = options.client()?;
        let server = Server::new(Connection::new(client.clone()));
        let ping = server.send(&redis::cmd("PING")).await;
        ping.map_err(|source| LockError::Backend { operation: "connect", name: None, source })?;
        let subscriber = Subscriber::new(client);
        Ok(Self {
            server: Arc::new(server),
            channel: subscriber.channel(),
            push: Arc::new(Notifications::new(subscriber)),
            prefix: options.prefix.into(),
            clock: options.clock,
        })
    }

    /// The fence of a resource on this server.
    pub fn fence(&self, resource: impl AsRef<str>) -> RedisFence {
        RedisFence::new(self.server.clone(), keys::mark(resource.as_ref()))
    }

    fn keys(&self, name: &LockName) -> Keys {
        Keys::new(&self.prefix, name)
    }

    /// The latest server time that a grant may be made at, in µs.
    fn clock_limit(&self) -> String {
        self.clock.micros().unwrap_or(u64::MAX).to_string()
    }

    async fn try_once(&self, claim: &Claim, channel: &str) -> Result<Attempt, BackendError> {
        let (owner, ttl) = (claim.owner.expose(), claim.ttl.as_millis().to_string());
        let limit = self.clock_limit();
        let args = [&*owner, &ttl, claim.label.as_str(), channel, &limit];
        let keys = self.keys(&claim.name).claiming(claim.owner);
        reply::attempt(claim, self.server.run(&ACQUIRE, &keys, &args).await?)
    }

    /// Looks at several locks in one request.
    async fn inspect_all(&self, names: &[LockName]) -> Result<Vec<LockState>, BackendError> {
        let keys = names.iter().map(|name| self.keys(name));
        let keys: Vec<String> = keys.flat_map(|keys| [keys.lock(), keys.waiters()]).collect();
        let args: [&str; 0] = [];
        reply::states(names, self.server.run(&INSPECT, &keys, &args).await?)
    }

    /// The counters that match `glob`, some of them more than once. What is no text is not ours.
    async fn counters(&self, glob: &str) -> Result<Vec<String>, BackendError> {
        let (mut cursor, mut found) = (0u64, Vec::new());
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(glob).arg("COUNT").arg(SCAN_STEP);
            let page = self.server.send(&scan).await?;
            let (next, keys): (u64, Vec<Vec<u8>>) = reply::read(page, "a page of keys")?;
            found.extend(keys.into_iter().filter_map(|key| String::from_utf8(key).ok()));
            if next == 0 {
                return Ok(found);
            }
            cursor = next;
        }
    }
}

#[async_trait]
impl DistributedLock for RedisLock {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(
            BACKEND,
            Order::Fifo,
            Wakeup::Push,
            Renewals::Batched,
            TokenDurability::CounterAndClock,
            Duration::from_millis(1),
            "a failover or a restart that loses writes can grant a lock twice; tokens still grow \
             unless the new server's clock is behind",
        )
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let push = &self.push;
        let channel = waiter.and_then(|waiter| push.register(claim.owner, waiter));
        let mut attempt = self.try_once(claim, channel.as_deref().unwrap_or_default()).await?;
        if let (Attempt::Busy(_), Some(waiter), None) = (&attempt, waiter, &channel) {
            // Subscribed first, queued after: else the grant could be published in between. A waiter
            // that cannot be reached polls.
            push.open().await?;
            let channel = push.register(claim.owner, waiter);
            attempt = self.try_once(claim, channel.as_deref().unwrap_or(POLLED)).await?;
        }
        if matches!(attempt, Attempt::Granted(_)) {
            push.unregister(claim.owner);
        }
        Ok(attempt)
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        let keys: Vec<String> =
            renewals.iter().map(|renewal| self.keys(&renewal.name).lock()).collect();
        let args: Vec<String> = renewals
            .iter()
            .flat_map(|Renewal { owner, token, ttl, .. }| {
                [format!("{}:{token}:", owner.expose()), ttl.as_millis().to_string()]
            })
            .collect();
        let reply = self.server.run(&EXTEND, &keys, &args).await;
        let answers = reply.and_then(|reply| reply::read::<Vec<u8>>(reply, "renewals"));
        match answers {
            Ok(answers) => {
                let extension = |(ours, renewal): (&u8, &Renewal)| match ours {
                    1 => Extension::Extended(renewal.ttl.as_duration()),
                    _ => Extension::Lost,
                };
                answers.iter().zip(renewals).map(extension).map(Ok).collect()
            }
            Err(error) => renewals.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        let args = [owner.expose(), self.clock_limit()];
        let reply = self.server.run(&RELEASE, &self.keys(name).granting(), &args).await?;
        match reply::read(reply, "the answer to a release")? {
            1 => Ok(Release::Released),
            0 => Ok(Release::NotHeld),
            _ => Err(unreadable("the answer to a release")),
        }
    }

    async fn withdraw(&self, name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        self.push.unregister(owner);
        let args = [owner.expose(), self.clock_limit()];
        let keys = self.keys(name).claiming(owner);
        self.server.run(&WITHDRAW, &keys, &args).await.map(drop)
    }
}

#[async_trait]
impl LockAdmin for RedisLock {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let state = self.inspect_all(std::slice::from_ref(name)).await?.pop();
        state.ok_or_else(|| unreadable("the state of a lock"))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        let counters = self.counters(&keys::counters(&self.prefix, prefix)).await?;
        let name = |counter: &String| keys::name_of_counter(&self.prefix, counter);
        let mut names: Vec<LockName> = counters.iter().filter_map(name).collect();
        names.sort_unstable();
        names.dedup();
        let mut held = Vec::new();
        for page in names.chunks(INSPECT_STEP) {
            let states = self.inspect_all(page).await?;
            held.extend(states.into_iter().filter(|state| state.holder.is_some()));
            if held.len() >= limit {
                break;
            }
        }
        held.truncate(limit);
        Ok(held)
    }

    async fn evict(&self, name: &LockName) -> Result<Option<Holder>, BackendError> {
        let args = [self.clock_limit()];
        let reply = self.server.run(&EVICT, &self.keys(name).granting(), &args).await?;
        reply::ended(reply)
    }

    async fn doctor(&self) -> Result<Vec<Finding>, BackendError> {
        doctor::examine(self).await
    }
}

impl std::fmt::Debug for RedisLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisLock").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
