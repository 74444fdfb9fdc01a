//! The floor of a store's tokens: a token is the floor plus the id of the transaction that created the claim's
//! node.
//!
//! Transaction ids alone begin at 1 in each ensemble, far below the tokens of other stores, which are times in
//! microseconds. The floor is the time in microseconds at which locks were first used in the ensemble, so that
//! tokens are greater than those of other stores and of earlier ensembles (C22). The floor is the name of a node:
//! each transaction that grants checks that the node exists.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use lock_core::{BackendError, FencingToken};
use zookeeper_client::{Acls, CreateMode, Error};

use crate::error::{BACKEND, overtaken};
use crate::sessions::Session;

/// The floor of one ensemble.
#[derive(Debug)]
pub(crate) struct Floor {
    value: u64,
    /// The node with this name.
    pub(crate) path: String,
}

impl Floor {
    /// Returns the token of the claim whose node this transaction created.
    pub(crate) fn token(&self, transaction: i64) -> Result<FencingToken, BackendError> {
        let token = FencingToken::new(self.value + transaction.unsigned_abs());
        token.map_err(|_| BackendError::refusal(BACKEND, "the transaction ids are used up"))
    }
}

/// The floor, as this client knows it.
pub(crate) struct Floors {
    path: String,
    acls: Acls<'static>,
    current: Mutex<Option<Arc<Floor>>>,
}

impl Floors {
    pub(crate) fn new(path: String, acls: Acls<'static>) -> Self {
        Self { path, acls, current: Mutex::default() }
    }

    /// Returns the floor; reads it at the first call.
    pub(crate) async fn get(&self, session: &Session) -> Result<Arc<Floor>, BackendError> {
        let known = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(floor) = known {
            return Ok(floor);
        }
        let floor = Arc::new(self.read(session).await?);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(floor.clone());
        Ok(floor)
    }

    /// Forgets the floor, so that the next use reads it again.
    pub(crate) fn forget(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Reads the floor, and writes it if it is missing.
    async fn read(&self, session: &Session) -> Result<Floor, BackendError> {
        // Fails only if other clients changed the floor each time.
        for _ in 0..3 {
            let client = session.client();
            let (sync, read) = (client.sync(&self.path), client.list_children(&self.path));
            let (_, read) = tokio::join!(sync, read);
            let children = match read {
                Ok(children) => Some(children),
                Err(Error::NoNode) => None,
                Err(error) => return Err(session.failed(error)),
            };
            let values = children.iter().flatten().filter_map(|child| child.parse::<u64>().ok());
            if let Some(value) = values.max() {
                return Ok(self.floor(value));
            }
            match self.write(session, children.is_some()).await {
                Err(Error::NodeExists | Error::NoNode | Error::NotEmpty) => {}
                Err(error) => return Err(session.failed(error)),
                Ok(floor) => return Ok(floor),
            }
        }
        Err(overtaken("the floor of tokens was not written"))
    }

    /// Writes the floor in one transaction with its parent, so that there is only one.
    async fn write(&self, session: &Session, has_parent: bool) -> Result<Floor, Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let floor = self.floor(u64::try_from(now.as_micros()).unwrap_or(u64::MAX));
        let options = CreateMode::Persistent.with_acls(self.acls);
        let client = session.client();
        let mut write = client.new_multi_writer();
        if has_parent {
            write.add_delete(&self.path, None)?;
        }
        write.add_create(&self.path, &[], &options)?;
        write.add_create(&floor.path, &[], &options)?;
        write.commit().await?;
        Ok(floor)
    }

    fn floor(&self, value: u64) -> Floor {
        Floor { value, path: format!("{}/{value}", self.path) }
    }
}
