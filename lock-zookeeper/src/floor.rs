//! The floor of a store's tokens. Tokens rise from it with the transactions of the store.
//!
//! Transaction ids alone begin at 1 in each ensemble, far below the tokens of other stores, which are times in
//! microseconds. So the floor is a node whose name is the time at which it was created. The token of a claim is that
//! time and the number of transactions since then (C22).
//!
//! ```text
//!   {root}/floor/1795251431457000 = "1795251431456962"     the time, and the offset of the floor before
//!
//!   offset of a floor = its time - the id of the transaction that created it, or the offset before if greater
//!   token of a hold   = offset + the id of the transaction that wrote that its claim holds
//! ```
//!
//! A client replaces the floor when it first reads it, if nobody has a claim then. So a service may leave the store
//! and come back. The time is that of the server, since a client with a wrong clock would lift all tokens for good.
//! Each transaction that creates a claim writes the floor's data as it was. The transaction fails if the floor was
//! replaced, and no client replaces a floor that was written since the client looked for claims.

use std::mem::take;
use std::sync::Arc;

use futures_util::future::try_join_all;
use lock_core::{BackendError, FencingToken};
use parking_lot::Mutex;
use zookeeper_client::{Acls, CreateMode, Error, MultiWriter, Stat};

use crate::error::{BACKEND, overtaken};
use crate::names::Root;
use crate::session::Session;

/// Floors whose last token is further behind the clock are replaced: no service leaves the store and comes back sooner.
const BEHIND: i64 = 10_000;

/// Latest time of a floor, the year 2112: no clock uses up the tokens.
const LATEST: i64 = 1 << 52;

/// Number of locks that are searched for claims. A store with more locks has just been in use.
const LOOKED_AT: usize = 64;

/// The floor of one ensemble.
#[derive(Debug)]
pub(crate) struct Floor {
    pub(crate) path: String,
    data: Vec<u8>,
    /// Difference between a hold's token and the id of the transaction that wrote that its claim holds.
    pub(crate) offset: i64,
    /// Token of the last transaction that created a claim.
    last: i64,
    /// Number of claims so far.
    version: i32,
}

impl Floor {
    /// Reads the floor from its node, which was created and last written in these transactions.
    fn read(
        path: String,
        data: Vec<u8>,
        (created, written): (i64, i64),
        version: i32,
    ) -> Result<Self, BackendError> {
        let offset = || {
            let time: i64 = path.rsplit('/').next()?.parse().ok()?;
            let before = match &*data {
                [] => i64::MIN,
                data => str::from_utf8(data).ok()?.parse().ok()?,
            };
            Some(time.checked_sub(created)?.max(before))
        };
        // S3: a floor of a later format, or a damaged one, is not guessed.
        let Some((offset, last)) =
            offset().and_then(|offset| Some((offset, offset.checked_add(written)?)))
        else {
            return Err(not_understood(&path));
        };
        Ok(Self { path, data, offset, last, version })
    }

    /// Returns true if the last claim is well behind this time.
    fn is_behind(&self, now: i64) -> bool {
        self.last.saturating_add(BEHIND) < now
    }

    /// Returns the token of the hold that this transaction wrote.
    pub(crate) fn token(&self, transaction: i64) -> Result<FencingToken, BackendError> {
        token(self.offset, transaction)
            .ok_or_else(|| BackendError::refusal(BACKEND, "the transaction ids are used up"))
    }

    /// Lets a transaction fail if the floor was replaced, and keeps others from replacing it unseen.
    pub(crate) fn guard(&self, write: &mut MultiWriter<'_>) -> Result<(), Error> {
        write.add_set_data(&self.path, &self.data, None)
    }
}

fn not_understood(path: &str) -> BackendError {
    let context = format!(
        "the floor of tokens, the node {path}, is not understood: delete it, and the next client writes a later one"
    );
    BackendError::refusal(BACKEND, context)
}

/// Returns the token of the hold that this transaction wrote, under a floor of this offset.
pub(crate) fn token(offset: i64, transaction: i64) -> Option<FencingToken> {
    let token = offset.checked_add(transaction)?;
    FencingToken::new(token.try_into().ok()?).ok()
}

/// Number of tries to read or write the floor. A try fails only if another client wrote meanwhile, as many do that
/// connect at once.
const TRIES: usize = 100;

/// The floor, as this client knows it.
pub(crate) struct Floors {
    root: Root,
    acls: Acls<'static>,
    current: Mutex<Option<Arc<Floor>>>,
    /// Offset of the floor that was read last. Clients that take turns do not replace the floor for each other.
    known: Mutex<Option<i64>>,
}

impl Floors {
    pub(crate) fn new(root: Root, acls: Acls<'static>) -> Self {
        let (current, known) = Default::default();
        Self { root, acls, current, known }
    }

    /// Returns the floor; reads it at the first call.
    pub(crate) async fn get(&self, session: &Session) -> Result<Arc<Floor>, BackendError> {
        let known = self.current.lock().clone();
        if let Some(floor) = known {
            return Ok(floor);
        }
        let floor = Arc::new(self.read(session).await?);
        *self.current.lock() = Some(floor.clone());
        *self.known.lock() = Some(floor.offset);
        Ok(floor)
    }

    /// Forgets the floor, so that the next use reads it again.
    pub(crate) fn forget(&self) {
        *self.current.lock() = None;
    }

    /// Reads the floor, and replaces it if that is due.
    async fn read(&self, session: &Session) -> Result<Floor, BackendError> {
        // Of clients that come at once, another one has replaced it since the first try.
        let mut may_replace = self.known.lock().is_none();
        for _ in 0..TRIES {
            let (version, found) = self.find(session).await?;
            let found = match found {
                // A client that comes to a store in use writes nothing.
                Some(floor) if !take(&mut may_replace) || !self.is_unused(session).await? => {
                    return Ok(floor);
                }
                found => found,
            };
            let now = self.time(session).await?;
            let found = match found {
                Some(floor) if !floor.is_behind(now) => return Ok(floor),
                found => found,
            };
            match self.write(session, found.as_ref(), now, version).await {
                Ok(()) | Err(Error::NodeExists | Error::NoNode | Error::BadVersion) => {}
                Err(error) => return Err(session.failed(error)),
            }
        }
        Err(overtaken("the floor of tokens was not written"))
    }

    /// Returns the server's time in microseconds: that of a write to the folder of all locks.
    async fn time(&self, session: &Session) -> Result<i64, BackendError> {
        let (client, folder) = (session.client(), self.root.locks());
        let mut written = client.set_data(&folder, &[], None).await;
        if let Err(Error::NoNode) = written {
            self.make(session, &folder).await?;
            written = client.set_data(&folder, &[], None).await;
        }
        let time = written.map_err(|error| session.failed(error))?.mtime;
        Ok(time.saturating_mul(1_000).min(LATEST))
    }

    async fn make(&self, session: &Session, folder: &str) -> Result<(), BackendError> {
        let options = CreateMode::Persistent.with_acls(self.acls);
        let made = session.client().mkdir(folder, &options).await;
        made.map_err(|error| session.failed(error))
    }

    /// Finds the floor, and the version of its folder, which each new floor changes.
    async fn find(&self, session: &Session) -> Result<(i32, Option<Floor>), BackendError> {
        let (client, folder) = (session.client(), self.root.floor());
        let (sync, read) = (client.sync(&folder), client.get_children(&folder));
        let (_, read) = tokio::join!(sync, read);
        let (children, Stat { version, .. }) = match read {
            Err(Error::NoNode) => return self.make(session, &folder).await.map(|()| (0, None)),
            read => read.map_err(|error| session.failed(error))?,
        };
        let times = children.iter().filter_map(|child| child.parse().ok());
        let path = match (times.max(), children.first()) {
            (Some(time), _) => self.path(time),
            (None, Some(child)) => return Err(not_understood(&format!("{folder}/{child}"))),
            (None, None) => return Ok((version, None)),
        };
        match client.get_data(&path).await {
            // C22: no floor of ours ends with a session, after which tokens would fall.
            Ok((_, stat)) if stat.ephemeral_owner != 0 => Err(not_understood(&path)),
            Ok((data, stat)) => {
                let floor = Floor::read(path, data, (stat.czxid, stat.mzxid), stat.version)?;
                Ok((version, Some(floor)))
            }
            Err(Error::NoNode) => Ok((version, None)),
            Err(error) => Err(session.failed(error)),
        }
    }

    /// Returns true if nobody has a claim.
    async fn is_unused(&self, session: &Session) -> Result<bool, BackendError> {
        let client = session.client();
        let is_empty = async |name: String| {
            let stat = client.check_stat(&format!("{}/{name}", self.root.locks())).await?;
            Ok::<_, Error>(stat.is_none_or(|stat| stat.num_children == 0))
        };
        let looks = async {
            let locks = match client.list_children(&self.root.locks()).await {
                Err(Error::NoNode) => Vec::new(),
                read => read?,
            };
            if locks.len() > LOOKED_AT {
                return Ok(false);
            }
            let are_empty = try_join_all(locks.into_iter().map(is_empty)).await?;
            Ok(are_empty.into_iter().all(|is_empty| is_empty))
        };
        looks.await.map_err(|error: Error| session.failed(error))
    }

    /// Writes a floor of this time in place of `found`, unless another client has written one since the folder had this
    /// version.
    async fn write(
        &self,
        session: &Session,
        found: Option<&Floor>,
        time: i64,
        version: i32,
    ) -> Result<(), Error> {
        let (client, folder) = (session.client(), self.root.floor());
        let mut write = client.new_multi_writer();
        write.add_set_data(&folder, &[], Some(version))?;
        if let Some(floor) = found {
            write.add_delete(&floor.path, Some(floor.version))?;
        }
        // C22: tokens do not fall if the floor that this client knows was removed.
        let before = found.map(|floor| floor.offset).max(*self.known.lock());
        let before = before.map(|offset| offset.to_string()).unwrap_or_default();
        let options = CreateMode::Persistent.with_acls(self.acls);
        write.add_create(&self.path(time), before.as_bytes(), &options)?;
        write.commit().await?;
        Ok(())
    }

    fn path(&self, time: i64) -> String {
        format!("{}/{time}", self.root.floor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor(time: &str, data: &str, transactions: (i64, i64)) -> Result<Floor, BackendError> {
        Floor::read(format!("/shop/floor/{time}"), data.as_bytes().to_vec(), transactions, 0)
    }

    #[test]
    fn c22_a_token_is_the_time_of_the_floor_and_the_transactions_since() {
        let floor = floor("1000", "", (30, 30)).expect("a floor");
        assert_eq!(floor.token(38).expect("a token").get(), 1_008);
        assert_eq!(token(floor.offset, 38), floor.token(38).ok());
        assert!(floor.token(i64::MAX).is_err() && floor.token(-970).is_err());
    }

    #[test]
    fn c22_tokens_never_fall_with_a_new_floor() {
        let early = floor("1000", "", (30, 90)).expect("a floor");
        // 1,060 was granted before.
        let later = floor("1050", &early.offset.to_string(), (91, 91)).expect("a floor");
        assert!(later.token(92).expect("a token") > early.token(90).expect("a token"));
        let much_later = floor("5000", &early.offset.to_string(), (91, 91)).expect("a floor");
        assert_eq!(much_later.token(92).expect("a token").get(), 5_001);
    }

    #[test]
    fn c22_a_floor_is_behind_by_its_last_token() {
        let floor = floor("1000", "", (30, 90)).expect("a floor");
        assert!(!floor.is_behind(1_060 + BEHIND) && floor.is_behind(1_061 + BEHIND));
    }

    #[test]
    fn s3_a_floor_that_is_not_understood_is_refused() {
        for (time, data) in [("", ""), ("later", ""), ("12", "x"), ("12", "later:1"), ("12", " 1")]
        {
            let refused = floor(time, data, (3, 3)).expect_err(data).to_string();
            assert!(refused.contains("/shop/floor/"), "{refused}");
        }
        assert!(floor("12", "", (i64::MIN, 3)).is_err());
    }
}
