//! Ends claims by deleting their nodes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use lock_core::backend::{Release, WITHDRAWAL_REMEMBERED, evicted};
use lock_core::{BackendError, Clock, Holder, LockName, Moment, OwnerId, SystemClock, Whom};
use zookeeper_client::{CreateMode, Error};

use crate::claims::Expired;
use crate::error::overtaken;
use crate::queue::Entry;
use crate::session::Session;
use crate::store::{Found, Store};

/// Lifetime of a mark: 10 s longer than required.
const MARK_LASTS: Duration = WITHDRAWAL_REMEMBERED.saturating_add(Duration::from_secs(10));

impl Store {
    pub(crate) async fn release(
        &self,
        name: &LockName,
        owner: OwnerId,
    ) -> Result<Release, BackendError> {
        if self.claims.is_over(owner) {
            return Ok(Release::NotHeld);
        }
        let session = self.sessions.common().await?;
        let (lock, mut known) = (self.root.lock(name), self.claims.held_node(owner));
        loop {
            let path = match known.take() {
                Some(node) => Some(node.path),
                None => self.hold_of(&session, &lock, owner).await?.map(|(path, _)| path),
            };
            let Some(path) = path else { return Ok(Release::NotHeld) };
            let is_released = self.delete(&session, &path).await?;
            self.claims.forget(owner);
            if is_released {
                return Ok(Release::Released);
            }
            // An extension may have moved the hold to another session meanwhile.
        }
    }

    /// Returns the node of the owner's hold, which another client may have created.
    pub(crate) async fn hold_of(
        &self,
        session: &Session,
        lock: &str,
        owner: OwnerId,
    ) -> Result<Option<(String, Found)>, BackendError> {
        loop {
            let queue = self.fresh_queue(session, lock).await?;
            let mut front = queue.entries().iter().take(queue.front());
            let Some(entry) = front.find(|entry| entry.owner == Some(owner)) else {
                return Ok(None);
            };
            let path = format!("{lock}/{}", entry.child);
            if let Some(found) = self.find(session, &path).await? {
                return Ok((!found.waits()).then_some((path, found)));
            }
            // The hold is over, or has moved to another session meanwhile.
        }
    }

    /// Deletes the node of a waiter that did not take its turn, unless the node was written since. The next look
    /// notices an error.
    pub(crate) async fn overtake(&self, session: &Session, (path, version): &(String, i32)) {
        let _ = session.client().delete(path, Some(*version)).await;
    }

    pub(crate) async fn withdraw(
        self: &Arc<Self>,
        name: &LockName,
        owners: &[OwnerId],
    ) -> Result<(), BackendError> {
        self.ensure_kept();
        let session = self.sessions.common().await?;
        // C19: once the marks exist, no later request of the claims succeeds.
        try_join_all(owners.iter().map(|owner| self.mark(*owner))).await?;
        let lock = self.root.lock(name);
        self.delete_all(&session, &lock, owners).await?;
        owners.iter().for_each(|owner| self.claims.forget(*owner));
        Ok(())
    }

    /// Deletes all nodes of these owners on a lock.
    pub(crate) async fn delete_all(
        &self,
        session: &Session,
        lock: &str,
        owners: &[OwnerId],
    ) -> Result<(), BackendError> {
        loop {
            let queue = self.fresh_queue(session, lock).await?;
            let nodes = owners.iter().flat_map(|owner| queue.of(*owner));
            let paths: Vec<_> =
                nodes.map(|Entry { child, .. }| format!("{lock}/{child}")).collect();
            let deleted = try_join_all(paths.iter().map(|path| self.delete(session, path))).await?;
            // A hold that was gone may have moved to another session meanwhile.
            if deleted.into_iter().all(|was_there| was_there) {
                return Ok(());
            }
        }
    }

    /// Deletes the nodes of a claim on its own sessions: another client may have attached the lease meanwhile, and then
    /// the node on that client's session is the hold.
    ///
    /// Each session answers for itself, so that a late request of the claim comes before the read. The node of a session
    /// that is over ends with it.
    pub(crate) async fn delete_on_its_sessions(&self, claim: &Expired) -> Result<(), BackendError> {
        let lock = self.root.lock(&claim.name);
        for session in claim.sessions.iter().filter(|session| !session.is_over()) {
            let queue = self.fresh_queue(session, &lock).await?;
            for Entry { child, .. } in queue.of(claim.owner) {
                let path = format!("{lock}/{child}");
                let found = self.find(session, &path).await?;
                if found.is_some_and(|found| session.has(&found.stat)) {
                    self.delete(session, &path).await?;
                }
            }
        }
        Ok(())
    }

    /// Leaves the mark of the withdrawn claim of `owner`.
    pub(crate) async fn mark(&self, owner: OwnerId) -> Result<(), BackendError> {
        let path = self.root.mark(owner);
        // A repeat finds the mark on the first session.
        let known = self.marks.lock().get(&path).map(|(place, _)| place.clone());
        let place = match known.filter(|place| !place.is_over()) {
            Some(place) => place,
            None => self.sessions.for_mark(&path).await?,
        };
        let until = SystemClock.now().after(MARK_LASTS);
        self.marks.lock().insert(path.clone(), (place.clone(), until));
        let options = CreateMode::Ephemeral.with_acls(self.acls);
        loop {
            match place.client().create(&path, &[], &options).await {
                Ok(_) | Err(Error::NodeExists) => return Ok(()),
                Err(Error::NoNode) => self.make_folders(&place).await?,
                Err(error) => return Err(place.failed(error)),
            }
        }
    }

    /// Deletes the marks that have expired. After a failure the next look tries again.
    pub(crate) async fn delete_old_marks(&self, session: &Session) {
        let now = SystemClock.now();
        let is_old = |(path, (_, until)): (&String, &(_, Moment))| {
            now.has_reached(*until).then(|| path.clone())
        };
        let old: Vec<_> = self.marks.lock().iter().filter_map(is_old).collect();
        let deleted = old.iter().map(async |path| {
            if self.delete(session, path).await.is_ok() {
                self.marks.lock().remove(path);
            }
        });
        join_all(deleted).await;
    }

    pub(crate) async fn evict(
        &self,
        name: &LockName,
        whom: &Whom,
    ) -> Result<Vec<Holder>, BackendError> {
        let session = self.sessions.common().await?;
        let holders = self.seen(&session, name, false).await?.holders;
        let asked: Vec<_> =
            holders.into_iter().filter(|(_, holder)| whom.includes(holder)).collect();
        let is_free = asked.is_empty();
        let ended = asked.into_iter().map(async |(path, holder)| {
            // An extension may have moved the hold to another session meanwhile.
            let ended = self.delete(&session, &path).await?
                || self.delete(&session, &Entry::moved(&path)).await?;
            Ok(ended.then_some(holder))
        });
        let ended = evicted(join_all(ended).await)?;
        match ended.is_empty() && !is_free {
            // The next try sees other holders.
            true => Err(overtaken("the holders released meanwhile")),
            false => Ok(ended),
        }
    }
}
