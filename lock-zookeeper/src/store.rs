//! One ensemble, and the claims of this client in it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::backend::{ServerTime, Sights};
use lock_core::{BackendError, Clock, Contention, FencingToken, LockError, Moment, SystemClock};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use zookeeper_client::{Acls, CreateMode, Error, Stat};

use crate::claims::{Claims, Node};
use crate::floor::{self, Floors};
use crate::names::Root;
use crate::options::Target;
use crate::places::Place;
use crate::queue::{Entry, Queue};
use crate::session::Session;
use crate::sessions::Sessions;
use crate::written::{Token, Written};

/// The sessions in an ensemble, and the claims of this client.
///
/// Attempts, waiting, renewals, endings and listings are in files of their own.
pub(crate) struct Store {
    pub(crate) root: Root,
    pub(crate) sessions: Sessions,
    pub(crate) floors: Floors,
    pub(crate) claims: Claims,
    /// The marks of withdrawn claims, with the place and the expiry of each.
    pub(crate) marks: Mutex<HashMap<String, (Arc<Place>, Moment)>>,
    pub(crate) acls: Acls<'static>,
    pub(crate) keeper: Mutex<Option<JoinHandle<()>>>,
    /// Nodes whose turn tries saw untaken, with their versions.
    pub(crate) sights: Sights<(String, i32)>,
    started: Moment,
}

/// A claim's node, as it was read.
pub(crate) struct Found {
    /// `None` if the data is not wholly understood.
    pub(crate) written: Option<Written>,
    pub(crate) stat: Stat,
}

impl Found {
    pub(crate) fn new((data, stat): (Vec<u8>, Stat)) -> Self {
        Self { written: Written::read(&data), stat }
    }

    /// Returns the data if it says that its claim holds. The caller must know that the claim's turn has come.
    pub(crate) fn held(self) -> Option<Written> {
        self.written.filter(|written| written.is_held)
    }

    /// The token of the claim, if its data says that it holds.
    pub(crate) fn token(&self) -> Option<FencingToken> {
        let written = self.written.as_ref().filter(|written| written.is_held)?;
        match written.token {
            Token::Offset(offset) => floor::token(offset, self.stat.mzxid),
            Token::Of(token) => Some(token),
        }
    }

    /// Returns since when the claim holds, by the server's clock.
    pub(crate) fn since(&self) -> Option<SystemTime> {
        let written = self.written.as_ref().filter(|written| written.is_held)?;
        let of_this_write = Duration::from_millis(self.stat.mtime.try_into().ok()?);
        written.since.or_else(|| UNIX_EPOCH.checked_add(of_this_write))
    }

    /// Returns the node of a claim of ours at this path.
    pub(crate) fn into_node(self, path: String) -> Option<Node> {
        let (token, version) = (self.token(), self.stat.version);
        Some(Node { path, version, token, slots: self.written?.slots })
    }

    /// Returns true if it is a place in the queue.
    pub(crate) fn waits(&self) -> bool {
        self.written.as_ref().is_some_and(|written| !written.is_held)
    }
}

impl Store {
    /// Connects, and reads the floor.
    pub(crate) async fn connect(target: Target) -> Result<Arc<Self>, LockError> {
        let acls = match target.has_a_user() {
            true => Acls::creator_all(),
            false => Acls::anyone_all(),
        };
        let (claims, marks, keeper, sights) = Default::default();
        let root = target.root.clone();
        let floors = Floors::new(root.clone(), acls);
        let (sessions, started) = (Sessions::new(target), SystemClock.now());
        let store = Self { root, sessions, floors, claims, marks, acls, keeper, sights, started };
        let answered = async { store.floors.get(&*store.sessions.common().await?).await };
        answered.await.map_err(|source| LockError::Backend {
            operation: "connect",
            name: None,
            source,
        })?;
        Ok(Arc::new(store))
    }

    /// Creates the nodes that all locks share. The first client with this root lacks them.
    pub(crate) async fn make_folders(&self, session: &Session) -> Result<(), BackendError> {
        let options = CreateMode::Persistent.with_acls(self.acls);
        for folder in [self.root.locks(), self.root.marks(), self.root.records()] {
            let made = session.client().mkdir(&folder, &options).await;
            made.map_err(|error| session.failed(error))?;
        }
        Ok(())
    }

    /// Returns the claims on the lock with this node, as the session's member knows them.
    pub(crate) async fn queue(&self, session: &Session, lock: &str) -> Result<Queue, BackendError> {
        let client = session.client();
        self.read_queue(session, client.list_children(lock)).await
    }

    /// Returns the claims on the lock with this node, not older than the request.
    pub(crate) async fn fresh_queue(
        &self,
        session: &Session,
        lock: &str,
    ) -> Result<Queue, BackendError> {
        // Both requests are sent before the first answer.
        let client = session.client();
        let sync = client.sync(lock);
        let read = client.list_children(lock);
        match sync.await {
            Ok(()) | Err(Error::NoNode) => self.read_queue(session, read).await,
            Err(error) => Err(session.failed(error)),
        }
    }

    /// Returns the claims on a lock, from the answer to a request for its children.
    pub(crate) async fn read_queue(
        &self,
        session: &Session,
        children: impl Future<Output = Result<Vec<String>, Error>>,
    ) -> Result<Queue, BackendError> {
        match children.await {
            Ok(children) => Ok(Queue::new(children)),
            // The server removes the node of an unused lock.
            Err(Error::NoNode) => Ok(Queue::default()),
            Err(error) => Err(session.failed(error)),
        }
    }

    /// Reads the node of a claim; `None` if it is gone.
    pub(crate) async fn find(
        &self,
        session: &Session,
        path: &str,
    ) -> Result<Option<Found>, BackendError> {
        match session.client().get_data(path).await {
            Ok(read) => Ok(Some(Found::new(read))),
            Err(Error::NoNode) => Ok(None),
            Err(error) => Err(session.failed(error)),
        }
    }

    /// Deletes the node of a claim; returns false if it was gone.
    pub(crate) async fn delete(&self, session: &Session, path: &str) -> Result<bool, BackendError> {
        match session.client().delete(path, None).await {
            Ok(()) => Ok(true),
            Err(Error::NoNode) => Ok(false),
            Err(error) => Err(session.failed(error)),
        }
    }

    /// Describes the holder to a waiter that asked at `asked`, with these claims before its own.
    pub(crate) async fn contention(
        &self,
        session: &Session,
        lock: &str,
        before: &[Entry],
        asked: Moment,
    ) -> Result<Contention, BackendError> {
        let mut contention = Contention::unknown();
        contention.at = Some(self.time(asked));
        let Some(Entry { child, owner, kind, .. }) = before.first() else { return Ok(contention) };
        contention.foreign_without_ttl = owner.is_none();
        let found = self.find(session, &format!("{lock}/{child}")).await?;
        contention.is_untaken = owner.is_some() && found.as_ref().is_some_and(Found::waits);
        if let Some(written) = found.and_then(Found::held) {
            // C33: all holders count as the first one does.
            contention.permits = kind.permits();
            contention.ttl_left = Some(written.ttl);
            contention.holder = Some(written.label);
        }
        // C33: a claim that counts otherwise than the holders waits.
        let counts_otherwise =
            |entry: &&Entry| ![0, kind.permits()].contains(&entry.kind.permits());
        if let Some(waiter) = before.iter().find(counts_otherwise) {
            let found = self.find(session, &format!("{lock}/{}", waiter.child)).await?;
            let label = found.and_then(|found| found.written).map(|written| written.label);
            contention.first_waiter = label.map(|label| Box::new((waiter.kind.permits(), label)));
        }
        Ok(contention)
    }

    /// Converts a time to the clock of grants and "busy" answers. It is our own, since this client makes both.
    pub(crate) fn time(&self, moment: Moment) -> ServerTime {
        ServerTime(moment.since(self.started))
    }
}

/// Ends the task at once, which has only a weak reference.
impl Drop for Store {
    fn drop(&mut self) {
        let keeper = self.keeper.get_mut();
        if let Some(keeper) = keeper.take() {
            keeper.abort();
        }
    }
}
