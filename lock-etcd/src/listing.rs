//! Looking at locks from outside.

use std::collections::BTreeMap;
use std::time::Duration;

use etcd_client::{Client, GetOptions};
use futures_util::stream::{self, StreamExt};
use lock_core::{BackendError, Holder, LockName, LockState, OwnerId};

use crate::lock::EtcdLock;
use crate::requests::Entry;

/// How many keys one request of a listing reads: far less than the 4 MiB that an answer may have.
const PAGE: i64 = 1000;

/// How many leases are asked for at once.
const AT_ONCE: usize = 64;

impl EtcdLock {
    /// Who holds a lock, by the first of its claims.
    pub(crate) async fn holder(&self, entry: &Entry) -> Holder {
        let left = self.left(entry).await;
        match self.owner(entry) {
            Some(owner) => {
                let left = left.unwrap_or(Duration::ZERO);
                Holder::ours(owner, entry.token, left, entry.label.clone())
            }
            None => Holder::foreign(left),
        }
    }

    /// Whose claim it is; `None` if it is not one of ours.
    pub(crate) fn owner(&self, entry: &Entry) -> Option<OwnerId> {
        self.root.read(&entry.key).and_then(|(_, owner)| owner)
    }

    /// How long the server keeps a claim, at the most, where it tells.
    pub(crate) async fn left(&self, entry: &Entry) -> Option<Duration> {
        let left = self.leases.left(entry.lease?).await.ok()?;
        Some(left.unwrap_or(Duration::ZERO))
    }

    /// The locks whose names start with `start`, sorted by name.
    pub(crate) async fn list_held(
        &self,
        start: &str,
        limit: usize,
    ) -> Result<Vec<LockState>, BackendError> {
        let claims = self.claims_of(start).await?;
        let state = |(name, claims): (LockName, Claims)| async move {
            let holder = self.holder(&claims.first).await;
            LockState::new(name, Some(holder), Some(claims.count - 1))
        };
        let states = stream::iter(claims.into_iter().take(limit)).map(state).buffered(AT_ONCE);
        Ok(states.collect().await)
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
            let page = self.server.ask(get).await?;
            for pair in page.kvs() {
                let entry = Entry::of(pair)?;
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
    first: Entry,
    count: u64,
}

impl Claims {
    fn none_before(entry: &Entry) -> Self {
        Self { first: entry.clone(), count: 0 }
    }

    fn add(&mut self, entry: Entry) {
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
