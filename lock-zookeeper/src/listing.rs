//! Looks at locks from outside.

use futures_util::future::try_join_all;
use lock_core::{BackendError, Holder, LockName, LockState};
use zookeeper_client::Error;

use crate::error::overtaken;
use crate::queue::Entry;
use crate::sessions::Session;
use crate::store::{Found, Store};

/// Number of looks at a holder that goes in between.
const LOOKS: usize = 5;

/// Number of locks that are read at once for a listing.
const AT_ONCE: usize = 64;

/// A lock as it was read.
pub(crate) struct Seen {
    /// The node of the hold, and the holder.
    pub(crate) holder: Option<(String, Holder)>,
    waiters: u64,
}

impl Store {
    pub(crate) async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let session = self.sessions.common().await?;
        let Seen { holder, waiters } = self.holder(&session, name).await?;
        Ok(LockState::new(name.clone(), holder.map(|(_, holder)| holder), Some(waiters)))
    }

    /// Reads the holder of a lock, and counts those who wait.
    pub(crate) async fn holder(
        &self,
        session: &Session,
        name: &LockName,
    ) -> Result<Seen, BackendError> {
        let lock = self.root.lock(name);
        for _ in 0..LOOKS {
            let queue = self.fresh_queue(session, &lock).await?;
            let all = queue.entries().len() as u64;
            let Some(first) = queue.first() else { return Ok(Seen { holder: None, waiters: 0 }) };
            let path = format!("{lock}/{}", first.child);
            let Some(found) = self.find(session, &path).await? else { continue };
            if first.owner.is_some() && found.waits() {
                // Its turn has come, and it has not taken it yet.
                return Ok(Seen { holder: None, waiters: all });
            }
            let holder = self.shown(session, first, &found).await?;
            return Ok(Seen { holder: Some((path, holder)), waiters: all - 1 });
        }
        Err(overtaken("the holders change too fast to be seen"))
    }

    /// The holder with this node, as operators see it.
    async fn shown(
        &self,
        session: &Session,
        entry: &Entry,
        found: &Found,
    ) -> Result<Holder, BackendError> {
        let (Some(owner), Some(written)) = (entry.owner, &found.written) else {
            return Ok(Holder::foreign(None));
        };
        let token = self.token(session, found).await?;
        let left = self.claims.left(owner).unwrap_or(written.ttl);
        let holder = Holder::ours(owner, token, left, written.label.clone());
        Ok(match written.since {
            Some(since) => holder.since(since),
            None => holder,
        })
    }

    /// The locks that are held and whose names start with `prefix`.
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
