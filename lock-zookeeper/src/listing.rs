//! Reads the state of locks, for operators.

use futures_util::future::try_join_all;
use lock_core::{BackendError, Holder, LockName, LockState};
use zookeeper_client::Error;

use crate::error::overtaken;
use crate::queue::Entry;
use crate::sessions::Session;
use crate::store::{Found, Store};

/// Number of looks if holders go in between.
const LOOKS: usize = 5;

/// Number of locks that a listing reads at once.
const AT_ONCE: usize = 64;

/// The state of a lock, as it was read.
pub(crate) struct LockAsRead {
    /// The node of each hold, and the holder.
    pub(crate) holders: Vec<(String, Holder)>,
    waiters: u64,
    /// Number of permits that each claim counts.
    permits: Vec<u16>,
}

impl Store {
    pub(crate) async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let session = self.sessions.common().await?;
        let LockAsRead { holders, waiters, permits } = self.seen(&session, name).await?;
        let holders = holders.into_iter().map(|(_, holder)| holder);
        Ok(LockState::new(name.clone(), holders, Some(waiters)).counted_as(permits))
    }

    /// Reads the holders of a lock, and counts its waiters.
    pub(crate) async fn seen(
        &self,
        session: &Session,
        name: &LockName,
    ) -> Result<LockAsRead, BackendError> {
        let lock = self.root.lock(name);
        for _ in 0..LOOKS {
            let queue = self.fresh_queue(session, &lock).await?;
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

    /// Returns the held locks whose names start with `prefix`.
    pub(crate) async fn list(
        &self,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<LockState>, BackendError> {
        let session = self.sessions.common().await?;
        let locks = self.root.locks();
        let client = session.client();
        let (sync, read) = (client.sync(&locks), client.list_children(&locks));
        let (_, read) = tokio::join!(sync, read);
        let children = match read {
            Err(Error::NoNode) => Vec::new(),
            read => read.map_err(|error| session.failed(error))?,
        };
        let names = children.iter().filter_map(|child| self.root.read(child));
        // C2: the prefix is data.
        let mut names: Vec<_> = names.filter(|name| name.as_str().starts_with(prefix)).collect();
        names.sort_unstable();
        let mut listed = Vec::new();
        for names in names.chunks(AT_ONCE) {
            if listed.len() >= limit {
                break;
            }
            let states = try_join_all(names.iter().map(|name| self.inspect(name))).await?;
            listed.extend(states.into_iter().filter(|state| state.holder().is_some()));
        }
        Ok(LockState::listed(listed, prefix, limit))
    }
}
