//! Looking at locks from outside.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use etcd_client::{Client, GetOptions};
use futures_util::stream::{self, StreamExt};
use lock_core::{BackendError, Holder, LockName, LockState};

use crate::cluster::Cluster;
use crate::requests;
use crate::view::StoredClaim;

/// How many keys one request of a listing reads: far less than the 4 MiB that an answer may have.
const PAGE: i64 = 1000;

/// How many leases are asked for at once.
const AT_ONCE: usize = 64;

impl Cluster {
    pub(crate) async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let (first, count) = self.first(name).await?;
        let holder = match first {
            Some(first) => Some(self.holder(&first, self.left(first.lease).await)),
            None => None,
        };
        Ok(LockState::new(name.clone(), holder, Some(count.saturating_sub(1))))
    }

    /// The first of the claims on a lock, which is the holder's, and how many there are.
    pub(crate) async fn first(
        &self,
        name: &LockName,
    ) -> Result<(Option<StoredClaim>, u64), BackendError> {
        let range = self.root.claims(name);
        let get =
            |mut client: Client| async move { client.get(range, Some(requests::first())).await };
        let found = self.server.on_store(get).await?;
        let first = found.kvs().first().map(StoredClaim::of).transpose()?;
        Ok((first, u64::try_from(found.count()).unwrap_or(0)))
    }

    /// Who holds a lock, by the first of its claims, and how long that has `left`.
    pub(crate) fn holder(&self, entry: &StoredClaim, left: Option<Duration>) -> Holder {
        match self.root.read(&entry.key).and_then(|(_, owner)| owner) {
            Some(owner) => {
                let left = left.unwrap_or(Duration::ZERO);
                let mut holder = Holder::ours(owner, entry.token, left, entry.label.clone());
                // C45: by the holder's clock, since etcd tells no wall time.
                holder.since = entry.since;
                holder
            }
            None => Holder::foreign(left),
        }
    }

    /// How long the server keeps what is on a lease unless it is renewed, at the most; `None` if it does
    /// not tell, or there is no lease.
    pub(crate) async fn left(&self, lease: i64) -> Option<Duration> {
        if lease == 0 {
            return None;
        }
        let ask = |mut client: Client| async move { client.lease_time_to_live(lease, None).await };
        let seconds = self.server.request(ask).await.ok()?.ttl();
        // The server tells whole seconds, rounded down. A lease that is gone has -1 left.
        Some(Duration::from_secs(seconds.saturating_add(1).max(0).unsigned_abs()))
    }

    /// The locks whose names start with `start`, sorted by name.
    pub(crate) async fn list_held(
        &self,
        start: &str,
        limit: usize,
    ) -> Result<Vec<LockState>, BackendError> {
        let claims: Vec<_> = self.claims_of(start).await?.into_iter().take(limit).collect();
        let leases: HashSet<i64> = claims.iter().map(|(_, claims)| claims.first.lease).collect();
        let left = |lease| async move { (lease, self.left(lease).await) };
        let left: HashMap<_, _> =
            stream::iter(leases).map(left).buffer_unordered(AT_ONCE).collect().await;
        let state = |(name, claims): (LockName, Claims)| {
            let left = left.get(&claims.first.lease).copied().flatten();
            LockState::new(name, Some(self.holder(&claims.first, left)), Some(claims.count - 1))
        };
        Ok(claims.into_iter().map(state).collect())
    }

    /// All claims on locks whose names start with `start`, page by page, in the order of their keys.
    async fn claims_of(&self, start: &str) -> Result<BTreeMap<LockName, Claims>, BackendError> {
        let range = self.root.starting_with(start).into_bytes();
        let end = after_all_that_start_with(&range);
        let (mut from, mut found) = (range, BTreeMap::<LockName, Claims>::new());
        loop {
            let options = GetOptions::new().with_range(end.clone()).with_limit(PAGE);
            let key = from.clone();
            let get = |mut client: Client| async move { client.get(key, Some(options)).await };
            let page = self.server.on_store(get).await?;
            for pair in page.kvs() {
                let entry = StoredClaim::of(pair)?;
                // Beside all locks, or of a name that no lock has.
                if let Some((name, _)) = self.root.read(&entry.key) {
                    found.entry(name).or_insert_with(|| Claims::none_before(&entry)).add(entry);
                }
            }
            match page.kvs().last() {
                Some(last) if page.more() => from = [last.key(), b"\0"].concat(),
                _ => return Ok(found),
            }
        }
    }
}

/// The claims on one lock.
struct Claims {
    first: StoredClaim,
    count: u64,
}

impl Claims {
    fn none_before(entry: &StoredClaim) -> Self {
        Self { first: entry.clone(), count: 0 }
    }

    fn add(&mut self, entry: StoredClaim) {
        self.count += 1;
        if entry.token < self.first.token {
            self.first = entry;
        }
    }
}

/// The end of the range of keys that start with `start`, which ends with a byte of UTF-8.
fn after_all_that_start_with(start: &[u8]) -> Vec<u8> {
    let mut end = start.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}
