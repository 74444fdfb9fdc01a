//! Inspects locks from outside.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{Client, GetOptions};
use futures_util::stream::{self, StreamExt};
use lock_core::backend::Changes;
use lock_core::{
    BackendError, Finding, Holder, Kind, LockAdmin, LockName, LockState, OwnerId, Whom,
};

use crate::layout::stored_claim::StoredClaim;
use crate::operations::backend::EtcdBackend;
use crate::operations::doctor;
use crate::protocol::floor::Floors;
use crate::protocol::requests;
use crate::protocol::standing::holders;

/// Number of keys that one request of a listing reads: an answer stays far below its limit of 4 MiB.
const PAGE: i64 = 1000;

/// Number of leases that are asked for at once.
const AT_ONCE: usize = 64;

/// Remaining times of leases without a renewal, and the floor of tokens at that time.
pub(crate) struct Left {
    leases: HashMap<i64, Option<Duration>>,
    floors: Arc<Floors>,
}

#[async_trait]
impl LockAdmin for EtcdBackend {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let claims = self.claims_on(name).await?;
        let left = self.left_of_all(&claims.holders).await?;
        self.state(name.clone(), &claims, &left)
    }

    fn changes(&self, name: &LockName) -> Option<Changes> {
        Some(self.watches.changes(&self.root.claims(name)))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        let claims = self.claims_of(self.root.starting_with(prefix)).await?.into_iter();
        let claims = claims.map(|(name, claims)| (name, ClaimsOnLock::of(claims)));
        // Nobody holds a lock whose first claim has no slots yet.
        let held = claims.filter(|(_, claims)| !claims.holders.is_empty()).take(limit);
        let held: Vec<_> = held.collect();
        let left = self.left_of_all(held.iter().flat_map(|(_, claims)| &claims.holders)).await?;
        held.into_iter().map(|(name, claims)| self.state(name, &claims, &left)).collect()
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        self.evict_holders(name, whom).await
    }

    async fn doctor(&self, _prefix: &str) -> Result<Vec<Finding>, BackendError> {
        doctor::examine(self).await
    }
}

impl EtcdBackend {
    /// Reads the holders of a lock, and the number of claims on it.
    pub(crate) async fn claims_on(&self, name: &LockName) -> Result<ClaimsOnLock, BackendError> {
        let (first, count) = self.first(name).await?;
        match first {
            // Only claims of these kinds hold it beside each other.
            Some(first) if first.kind() != Kind::Exclusive => {
                let all = self.claims_of(self.root.claims(name)).await?.remove(name);
                Ok(ClaimsOnLock::of(all.unwrap_or_default()))
            }
            first => {
                let (holders, permits) = (first.into_iter().collect(), Vec::new());
                Ok(ClaimsOnLock { holders, count, permits })
            }
        }
    }

    /// Returns the key of the claim of `owner`. If another client has made the claim, this reads all claims on the
    /// lock.
    pub(crate) async fn key_of(
        &self,
        name: &LockName,
        owner: OwnerId,
    ) -> Result<Option<Arc<str>>, BackendError> {
        let known = self.claims.key(owner);
        if let Some(known) = known.filter(|key| key.starts_with(&self.root.claims(name))) {
            return Ok(Some(known));
        }
        let found = Box::pin(self.find(name, owner)).await?;
        Ok(found.and_then(|claim| str::from_utf8(&claim.key).ok().map(Arc::from)))
    }

    /// Finds the claim of `owner` among all claims on the lock.
    pub(crate) async fn find(
        &self,
        name: &LockName,
        owner: OwnerId,
    ) -> Result<Option<StoredClaim>, BackendError> {
        let claims = self.claims_of(self.root.claims(name)).await?.remove(name);
        let mut claims = claims.unwrap_or_default().into_iter();
        Ok(claims.find(|claim| claim.value.owner == Some(owner)))
    }

    /// Returns the first of the claims on a lock, and their number.
    async fn first(&self, name: &LockName) -> Result<(Option<StoredClaim>, u64), BackendError> {
        let found = self.server.get(self.root.claims(name), requests::first()).await?;
        let first = found.kvs().first().map(StoredClaim::of);
        Ok((first, u64::try_from(found.count()).unwrap_or(0)))
    }

    fn state(
        &self,
        name: LockName,
        claims: &ClaimsOnLock,
        left: &Left,
    ) -> Result<LockState, BackendError> {
        let holders = claims.holders.iter().map(|claim| left.holder(claim));
        let waiters = claims.count.saturating_sub(claims.holders.len() as u64);
        let state = LockState::new(name, holders.collect::<Result<Vec<_>, _>>()?, Some(waiters));
        Ok(state.counted_as(claims.permits.iter().copied()))
    }

    /// Reads the times for which the server keeps the leases of these claims, and the floor of their tokens.
    pub(crate) async fn left_of_all(
        &self,
        claims: impl IntoIterator<Item = &StoredClaim>,
    ) -> Result<Left, BackendError> {
        let leases: HashSet<i64> = claims.into_iter().map(|claim| claim.lease).collect();
        // The floor is read after the claims. If this client knows no floor of their time, a shown token is too great,
        // but never too small.
        if !leases.is_empty() {
            self.floors.observed().await?;
        }
        let left = |lease| async move { (lease, self.left(lease).await) };
        let leases = stream::iter(leases).map(left).buffer_unordered(AT_ONCE).collect().await;
        Ok(Left { leases, floors: self.floors.clone() })
    }

    /// Reads the longest time for which the server keeps a lease without a renewal; `None` if the server does not
    /// report it, or there is no lease.
    pub(crate) async fn left(&self, lease: i64) -> Option<Duration> {
        self.read_left(lease).await.ok().flatten()
    }

    /// Does the same; `None` only if there is no lease.
    pub(crate) async fn read_left(&self, lease: i64) -> Result<Option<Duration>, BackendError> {
        if lease == 0 {
            return Ok(None);
        }
        let ask = |mut client: Client| async move { client.lease_time_to_live(lease, None).await };
        let seconds = self.server.request(ask).await?.ttl();
        // The server reports whole seconds, rounded down. A lost lease has -1 left.
        Ok(Some(Duration::from_secs(seconds.saturating_add(1).max(0).unsigned_abs())))
    }

    /// Returns all claims whose keys start with `range`, page by page, in the order of their keys.
    async fn claims_of(
        &self,
        range: String,
    ) -> Result<BTreeMap<LockName, Vec<StoredClaim>>, BackendError> {
        let range = range.into_bytes();
        let end = after_all_that_start_with(&range);
        let (mut from, mut found) = (range, BTreeMap::<LockName, Vec<StoredClaim>>::new());
        loop {
            let options = GetOptions::new().with_range(end.clone()).with_limit(PAGE);
            let page = self.server.get(&*from, options).await?;
            for pair in page.kvs() {
                let entry = StoredClaim::of(pair);
                // Skips keys outside of all locks, and names that no lock can have.
                if let Some(name) = self.root.read(&entry.key) {
                    found.entry(name).or_default().push(entry);
                }
            }
            match page.kvs().last() {
                Some(last) if page.more() => from = [last.key(), b"\0"].concat(),
                _ => return Ok(found),
            }
        }
    }
}

impl Left {
    /// Describes the holder of a lock, from its claim.
    pub(crate) fn holder(&self, entry: &StoredClaim) -> Result<Holder, BackendError> {
        let left = self.leases.get(&entry.lease).copied().flatten();
        let Some(owner) = entry.value.owner else { return Ok(Holder::foreign(left)) };
        let (left, value) = (left.unwrap_or(Duration::ZERO), entry.value.clone());
        let mut holder = Holder::ours(owner, self.floors.token(entry.revision)?, left, value.label);
        // C45: the holder's clock, since etcd tells no wall time.
        holder.since = value.since;
        Ok(holder.of_kind(value.kind, value.slots))
    }
}

/// The claims on one lock.
pub(crate) struct ClaimsOnLock {
    /// The claims that hold the lock, in the order of their grants.
    pub(crate) holders: Vec<StoredClaim>,
    count: u64,
    /// Number of permits that each claim counts. It is not read behind an exclusive hold.
    permits: Vec<u16>,
}

impl ClaimsOnLock {
    fn of(mut claims: Vec<StoredClaim>) -> Self {
        claims.sort_unstable_by_key(|claim| claim.revision);
        let permits = claims.iter().map(|claim| claim.kind().permits()).collect();
        Self { holders: holders(&claims).to_vec(), count: claims.len() as u64, permits }
    }
}

/// Returns the end of the range of keys that start with `start`, which ends with a byte of UTF-8.
fn after_all_that_start_with(start: &[u8]) -> Vec<u8> {
    let mut end = start.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}
