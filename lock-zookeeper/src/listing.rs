//! Reads the state of locks, for operators.

use async_trait::async_trait;
use futures_util::future::try_join_all;
use lock_core::backend::probe;
use lock_core::{BackendError, Finding, Holder, LockAdmin, LockName, LockState, Whom};
use zookeeper_client::Error;

use crate::backend::ZooKeeperBackend;
use crate::error::overtaken;
use crate::queue::Entry;
use crate::session::Session;
use crate::store::{Found, Store};

/// Number of looks if holders go in between.
const LOOKS: usize = 5;

/// Number of locks that a listing reads at once.
const AT_ONCE: usize = 512;

/// The state of a lock, as it was read.
pub(crate) struct LockAsRead {
    /// The node of each hold, and the holder.
    pub(crate) holders: Vec<(String, Holder)>,
    waiters: u64,
    /// Number of permits that each claim counts.
    permits: Vec<u16>,
}

#[async_trait]
impl LockAdmin for ZooKeeperBackend {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let session = self.store.sessions.common().await?;
        let read = self.store.seen(&session, name, false).await?;
        Ok(read.into_state(name))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        let store = &self.store;
        let session = store.sessions.common().await?;
        let locks = store.root.locks();
        let client = session.client();
        let (sync, read) = (client.sync(&locks), client.list_children(&locks));
        let (_, read) = tokio::join!(sync, read);
        let children = match read {
            Err(Error::NoNode) => Vec::new(),
            read => read.map_err(|error| session.failed(error))?,
        };
        let names = children.iter().filter_map(|child| store.root.read(child));
        // C2: the prefix is data.
        let mut names: Vec<_> = names.filter(|name| name.as_str().starts_with(prefix)).collect();
        names.sort_unstable();
        let mut listed = Vec::new();
        for names in names.chunks(AT_ONCE) {
            if listed.len() >= limit {
                break;
            }
            let states = names.iter().map(async |name| {
                let read = store.seen(&session, name, true).await?;
                Ok::<_, BackendError>(read.into_state(name))
            });
            let states = try_join_all(states).await?.into_iter();
            listed.extend(states.filter(|state| state.holder().is_some()));
        }
        Ok(LockState::listed(listed, prefix, limit))
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        self.store.evict(name, whom).await
    }

    async fn doctor(&self, prefix: &str) -> Result<Vec<Finding>, BackendError> {
        let mut findings = self.store.examine().await?;
        let remedy = "let the user create, read, write and delete nodes below the root";
        findings.push(probe(self, prefix, remedy).await);
        Ok(findings)
    }
}

impl LockAsRead {
    fn into_state(self, name: &LockName) -> LockState {
        let holders = self.holders.into_iter().map(|(_, holder)| holder);
        LockState::new(name.clone(), holders, Some(self.waiters)).counted_as(self.permits)
    }
}

impl Store {
    /// Reads the holders of a lock, and counts its waiters. If `is_synced`, the session's member is not behind.
    pub(crate) async fn seen(
        &self,
        session: &Session,
        name: &LockName,
        is_synced: bool,
    ) -> Result<LockAsRead, BackendError> {
        let lock = self.root.lock(name);
        for look in 0..LOOKS {
            let queue = match is_synced && look == 0 {
                true => self.queue(session, &lock).await?,
                false => self.fresh_queue(session, &lock).await?,
            };
            let front = queue.entries().get(..queue.front()).unwrap_or_default();
            let shown = front.iter().map(async |entry| {
                let path = format!("{lock}/{}", entry.child);
                let Some(found) = self.find(session, &path).await? else { return Ok(None) };
                if entry.owner.is_some() && found.waits() {
                    // Its turn may have come, but it does not hold yet.
                    return Ok(Some(None));
                }
                Ok::<_, BackendError>(Some(Some((path, self.shown(entry, &found)))))
            });
            // If a node is gone, another claim may hold in its place, so all are read again.
            let shown: Option<Vec<_>> = try_join_all(shown).await?.into_iter().collect();
            if let Some(shown) = shown {
                let holders: Vec<_> = shown.into_iter().flatten().collect();
                let waiters = (queue.entries().len() - holders.len()) as u64;
                let permits = queue.entries().iter().map(|entry| entry.kind.permits()).collect();
                return Ok(LockAsRead { holders, waiters, permits });
            }
        }
        Err(overtaken("the holders change too fast to be seen"))
    }

    /// Returns the holder with this node, in the form for operators.
    fn shown(&self, entry: &Entry, found: &Found) -> Holder {
        let (Some(owner), Some(written), Some(token)) =
            (entry.owner, &found.written, found.token())
        else {
            return Holder::foreign(None);
        };
        let left = self.claims.left(owner).unwrap_or(written.ttl);
        let holder = Holder::ours(owner, token, left, written.label.clone());
        let holder = holder.of_kind(entry.kind, written.slots.clone());
        match found.since() {
            Some(since) => holder.since(since),
            None => holder,
        }
    }
}
