//! Locks that are spread over several stores.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;

use super::arriving::Arrivals;
use super::layout::{Layout, Place};
use super::member::Member;
use super::moving::{Closing, close};
use super::opening::open_all;
use super::shard::Shard;
use super::weakest::while_moving;
use crate::backend::answers::{Attempt, Extension, Grant, Recording, Release, Reserved};
use crate::backend::distributed_lock::{DistributedLock, LossWatch};
use crate::backend::waiter::WaiterHandle;
use crate::model::{
    BackendError, Capabilities, Claim, FencingToken, Lease, LockError, LockName, Occurrence,
    OwnerId, Record, Renewal, Reservation, Ttl,
};

/// The locks of several stores, the shards, each of which has a part of the names and knows nothing of the
/// others: for more locks than one store can bear.
///
/// Each name is on one shard, which the name and the ids of the shards alone decide (rendezvous
/// hashing by SHA-256). So all clients have to be given the same shards, in any order. What a shard promises goes for its names as without the others. A shard that
/// cannot be reached stops its own names alone.
///
/// # Another list of shards
/// A shard more or less moves its share of the names, one of n, and no other name. Two clients of different
/// lists would look for such a name on different shards, and both would be granted it. So the new shard is
/// [joining](Shard::joining), and the one that is to go [leaving](Shard::leaving), until all clients have the new
/// list:
///
/// 1. Give all clients the list with the mark, one after the other if you like. Before such a client is granted a
///    name that moves, it closes the lock on the former shard. Clients of the former list wait for that name
///    from then on, and are shown who holds it: `leasehold: moved to shard …`.
/// 2. When the last client of the former list has ended, and the longest TTL has passed since, give all clients
///    the list without the mark, within a day: after that a closed lock is open again.
///
/// While a name moves, its lock takes two requests, and the first two more. Those who wait for it look once a second
/// at the most, and are served in any order. A lease of a client of the former list is not renewed by one of the new
/// list.
///
/// Tokens grow through a move where the counters of both shards begin at the time (C22). Where the counter of the new
/// shard is behind the last token of the former one, the missing tokens are skipped first, as far as the shard's clock has
/// passed them; before that the lock is not granted, by a transient error. A name that nobody takes during a move is
/// not compared: before it goes back to a shard which it has left, its counter there has to expire (on Redis in a week).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
/// use lock_core::backend::{Shard, ShardedLock};
/// use lock_core::{LockClient, MemoryBackend};
///
/// let shards = ["a", "b", "c"].map(|id| Shard::new(id, MemoryBackend::new()));
/// let locks = LockClient::new(ShardedLock::open(shards).await?);
/// let guard = locks.acquire("stock:42").await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ShardedLock {
    pub(super) layout: Arc<Layout>,
    capabilities: Capabilities,
    arrivals: Arc<Arrivals>,
}

impl ShardedLock {
    /// The locks of all `shards`. Those whose stores are still to be opened are opened side by side.
    ///
    /// One that cannot be reached is opened later, by the first request that finds it.
    ///
    /// # Errors
    /// - [`LockError::Config`] if there is no shard, an id is [none](Shard::is_id) or twice there, or the tokens of
    ///   some shards begin at the time, and those of others do not: a name that moved between them could be
    ///   granted a smaller token. Also if names are to move between shards whose tokens do not begin at the time.
    /// - The error of a shard that refuses, and that of the first if none can be reached.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub async fn open(shards: impl IntoIterator<Item = Shard>) -> Result<Self, LockError> {
        let shards: Vec<Shard> = shards.into_iter().collect();
        if let Some(shard) = shards.iter().find(|shard| !Shard::is_id(&shard.id)) {
            let message = format!("shards: `{}` is no id of one", shard.id.escape_debug());
            return Err(LockError::Config { message });
        }
        let (members, told) = open_all(shards).await?;
        let layout = Layout::new(members)?;
        let capabilities = if layout.moves() { while_moving(told) } else { told };
        Ok(Self { layout: Arc::new(layout), capabilities, arrivals: Arc::default() })
    }

    pub(super) fn place(&self, name: &LockName) -> Place<'_> {
        self.layout.place(name)
    }

    /// The shard that has the name.
    fn home(&self, name: &LockName) -> &Member {
        self.place(name).home
    }

    /// Asks one shard to extend its holds: those with these places among all of them.
    async fn extend_on(
        &self,
        shard: usize,
        places: &[usize],
        renewals: &[Renewal],
    ) -> Vec<Result<Extension, BackendError>> {
        let member = &self.layout.members[shard];
        let own: Vec<Renewal> = places.iter().map(|&place| renewals[place].clone()).collect();
        let answers = member.backend.extend_all(&own).await;
        answers.into_iter().map(|answer| member.named(answer)).collect()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl DistributedLock for ShardedLock {
    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    /// The shards are counted, so that one which is silent keeps no renewal of another waiting.
    fn server_of(&self, name: &LockName) -> u64 {
        self.layout.index(self.home(name)) as u64
    }

    async fn try_acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let place = self.place(&claim.name);
        let Some(former) = place.former else {
            return place.home.named(place.home.backend.try_acquire(claim, waiter).await);
        };
        // S3: clients of the former list are shut out before we are let in.
        match close(former, &claim.name, place.home).await? {
            Closing::Busy(seen) => Ok(Attempt::Busy(seen)),
            Closing::Closed(token) => self.arrivals.acquire(place.home, claim, token).await,
        }
    }

    /// None: it is not asked, since the locks may be on several shards.
    async fn acquire_while_free(&self, _: &[Claim]) -> Result<Vec<Grant>, BackendError> {
        Ok(Vec::new())
    }

    async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        let mut places = vec![Vec::new(); self.layout.members.len()];
        for (place, renewal) in renewals.iter().enumerate() {
            places[self.layout.index(self.home(&renewal.name))].push(place);
        }
        let asked = places.iter().enumerate().filter(|(_, places)| !places.is_empty());
        let answers =
            join_all(asked.clone().map(|(shard, places)| self.extend_on(shard, places, renewals)))
                .await;
        let no_answer = BackendError::no_answer(self.capabilities.backend, Duration::ZERO);
        let mut all = vec![Err(no_answer); renewals.len()];
        for ((_, places), answers) in asked.zip(answers) {
            for (&place, answer) in places.iter().zip(answers) {
                all[place] = answer;
            }
        }
        all
    }

    async fn extend(&self, renewal: &Renewal) -> Result<Extension, BackendError> {
        let home = self.home(&renewal.name);
        home.named(home.backend.extend(renewal).await)
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        let home = self.home(name);
        home.named(home.backend.release(name, owner).await)
    }

    async fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError> {
        let home = self.home(&hold.name);
        home.named(home.backend.release_or_reserve(hold).await)
    }

    async fn release_after(
        &self,
        name: &LockName,
        owner: OwnerId,
        delay: Ttl,
    ) -> Result<Release, BackendError> {
        let home = self.home(name);
        home.named(home.backend.release_after(name, owner, delay).await)
    }

    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        let home = self.home(&record.name);
        home.named(home.backend.record(record).await)
    }

    async fn recorded(
        &self,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<Option<FencingToken>, BackendError> {
        let Place { home, former } = self.place(name);
        let recorded = home.named(home.backend.recorded(name, occurrence).await)?;
        match (recorded, former) {
            // C42: a run that ended well before the name moved is no reason to run again.
            (None, Some(former)) => former.named(former.backend.recorded(name, occurrence).await),
            (recorded, _) => Ok(recorded),
        }
    }

    async fn withdraw(&self, name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        let home = self.home(name);
        home.named(home.backend.withdraw(name, owner).await)
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        self.home(&lease.name).backend.watch(lease)
    }

    /// Each is closed, also if another does not answer.
    async fn close(&self) -> Result<(), BackendError> {
        let members = self.layout.members.iter();
        let closed =
            join_all(members.map(async |member| member.named(member.backend.close().await)));
        closed.await.into_iter().collect()
    }
}
