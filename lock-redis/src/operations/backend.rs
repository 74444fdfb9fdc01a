//! The operations on locks, each one script and one round trip.

use futures_util::future::try_join_all;
use lock_core::backend::{RecordsRuns, ReservesTokens};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{
    Attempt, Claim, ClockLimit, Extension, Record, Recording, Release, Renewal, Reservation,
    Reserved, WaiterHandle,
};
use lock_core::{
    BackendError, Capabilities, DistributedLock, Kind, Kinds, LockAdmin, LockName, Occurrence,
    Order, OwnerId, RecordedRun, Renewals, TokenDurability, Wakeup,
};
use redis::cmd;

use crate::operations::fence::RedisFence;
use crate::protocol::error::{BACKEND, listening};
use crate::protocol::keys::{self, Keys, RUNS};
use crate::protocol::message::{Acquiring, Message, Releasing};
use crate::protocol::reply;
use crate::scripts::{POLLED, RECORD, RESERVE, WITHDRAW};
use crate::topology::Topology;
use crate::wire::node::Node;

/// The effect of a loss of the store (C30).
const ON_STORE_LOSS: &str = "a failover or a restart that loses writes can grant a lock twice; tokens still \
     grow unless the server's clock is behind then";

/// Locks on one logical Redis server, or on a server that speaks its protocol.
///
/// Clones share one connection for requests and, while one of them waits, one for pushed grants. On a cluster they
/// share these for each primary. The documentation of the crate lists the guarantees.
#[derive(Clone)]
pub struct RedisBackend {
    pub(crate) server: Arc<Topology>,
    clock: ClockLimit,
}

impl RedisBackend {
    pub(crate) fn new(server: Topology, clock: ClockLimit) -> Self {
        Self { server: Arc::new(server), clock }
    }

    /// The fence of a resource on this server.
    pub fn fence(&self, resource: impl AsRef<str>) -> RedisFence {
        RedisFence::new(self.server.clone(), keys::mark(resource.as_ref()))
    }

    /// Returns the latest server time for a grant, in µs.
    pub(crate) fn clock_limit(&self) -> u64 {
        self.clock.micros().unwrap_or(u64::MAX)
    }

    /// Asks once; also returns true if a waiter would receive its grant. A waiter that would not is queued as `deaf`.
    async fn try_once(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
        deaf: &'static str,
    ) -> Result<(Attempt, bool), BackendError> {
        let (limit, kind) = (self.clock_limit(), kind_mark(claim.kind));
        let mut hears = false;
        let reply = self.server.ask(&claim.name, |node| {
            let channel = waiter.and_then(|waiter| node.push.register(claim.owner, waiter));
            hears = channel.is_some();
            Message::Acquire(Acquiring {
                name: claim.name.clone(),
                owner: claim.owner,
                ttl_ms: claim.ttl.as_millis(),
                label: claim.label.clone(),
                channel: channel.map_or(Cow::Borrowed(deaf), |channel| channel.to_string().into()),
                limit,
                kind: kind.clone(),
            })
        });
        let attempt = reply::attempt(claim, reply.await?)?;
        Ok((attempt, hears))
    }
}

/// Returns the script's mark of a kind; `None` if it is exclusive.
fn kind_mark(kind: Kind) -> Option<String> {
    match kind {
        Kind::Shared => Some("*".to_owned()),
        Kind::OneOf(permits) => Some(format!("*{}/{}", permits.of(), permits.taken())),
        _ => None,
    }
}

#[async_trait]
impl DistributedLock for RedisBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(
            BACKEND,
            Order::Fifo,
            Wakeup::Push,
            Renewals::Batched,
            TokenDurability::CounterAndClock,
            Duration::from_millis(1),
            ON_STORE_LOSS,
        )
        .with_kinds(Kinds::Permits)
    }

    fn server_of(&self, name: &LockName) -> u64 {
        self.server.number_of(&Keys::new(name).lock())
    }

    async fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let (mut attempt, hears) = self.try_once(claim, waiter, "").await?;
        if let (Attempt::Busy(_), Some(_), false) = (&attempt, waiter, hears) {
            // Subscribes before it queues: otherwise the grant could be published in between. A waiter that cannot
            // subscribe polls.
            listening(self.server.node_of(&Keys::new(&claim.name).lock())?.push.open().await)?;
            (attempt, _) = self.try_once(claim, waiter, POLLED).await?;
        }
        if let Attempt::Granted(_) = attempt {
            self.server.unregister(claim.owner);
        }
        Ok(attempt)
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        self.renew(renewals).await
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        let limit = self.clock_limit();
        let releasing = |_: &Node| Message::Release(Releasing { name: name.clone(), owner, limit });
        reply::release(self.server.ask(name, releasing).await?)
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        try_join_all(owners.iter().map(|owner| self.withdraw_one(name, *owner))).await.map(drop)
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

#[async_trait]
impl ReservesTokens for RedisBackend {
    async fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError> {
        let (owner, limit) = (hold.owner.expose(), self.clock_limit());
        let args = (&*owner, limit, hold.tokens, u8::from(hold.yields));
        reply::reserved(hold, self.server.pass_on(&RESERVE, &hold.name, args).await?)
    }
}

#[async_trait]
impl RecordsRuns for RedisBackend {
    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        let (keys, token) = (Keys::new(&record.name), record.token.to_string());
        let hold = format!("{}:{token}:", record.owner.expose());
        let args = (hold, token, record.occurrence.as_str(), record.remember_millis());
        let keys = [keys.lock(), keys.run(&record.occurrence), keys.companion(RUNS)];
        reply::recording(self.server.run(&RECORD, &keys, args).await?)
    }

    async fn runs(
        &self,
        name: &LockName,
        of: Option<&Occurrence>,
    ) -> Result<Vec<RecordedRun>, BackendError> {
        let keys = Keys::new(name);
        let occurrences = match of {
            Some(of) => vec![of.clone()],
            None => {
                let mut index = cmd("ZRANGE");
                index.arg(keys.companion(RUNS)).arg(0).arg(-1);
                reply::occurrences(self.server.send(&keys.lock(), index).await?)?
            }
        };
        let run = async |occurrence: Occurrence| {
            let mut get = cmd("GET");
            get.arg(keys.run(&occurrence));
            let token = reply::recorded(self.server.send(&keys.lock(), get).await?)?;
            // A run whose record has expired meanwhile is skipped.
            Ok(token.map(|token| RecordedRun::new(occurrence, token)))
        };
        Ok(try_join_all(occurrences.into_iter().map(run)).await?.into_iter().flatten().collect())
    }

    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Result<bool, BackendError> {
        let keys = Keys::new(name);
        let mut del = cmd("DEL");
        del.arg(keys.run(occurrence));
        reply::forgotten(self.server.send(&keys.lock(), del).await?)
    }
}

impl RedisBackend {
    async fn withdraw_one(&self, name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        self.server.unregister(owner);
        let (owner_id, limit) = (owner.expose(), self.clock_limit());
        let keys = Keys::new(name);
        let keys = keys.claiming(&owner_id);
        self.server.run(&WITHDRAW, &keys, (&*owner_id, limit)).await.map(drop)
    }
}

impl fmt::Debug for RedisBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBackend").finish_non_exhaustive()
    }
}
