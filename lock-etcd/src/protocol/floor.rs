//! The floor of a store's tokens: a token is the floor plus a revision of the store.
//!
//! Revisions alone begin at 1 in each cluster, far below the tokens of other stores, which are times in
//! microseconds. The floor is the time in microseconds at which locks were first used in the cluster. So a resource
//! that saw the tokens of another store, or of an earlier cluster, accepts those of this one (C22).
//!
//! ```text
//!   {root}/floor = "1795251431457000 cdf818194e3a8c32"     the floor, and the id of the cluster it was written in
//! ```
//!
//! The first client writes the key, and nobody changes it. Each transaction that grants compares that the key is as it
//! was read. Where it is missing, or was written in another cluster (a backup was restored), a client writes a later
//! floor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use etcd_client::{Compare, CompareOp, Txn, TxnOp, TxnOpResponse};
use lock_core::{BackendError, FencingToken};
use tokio::sync::OnceCell;

use crate::wire::answer::Answer;
use crate::wire::error::{not_understood, overtaken, refusal, unreadable};
use crate::wire::server::Server;

/// The floor of one cluster, as this client knows it.
pub(crate) struct Floors {
    server: Arc<Server>,
    key: String,
    /// Empty until the floor is read.
    current: Mutex<Arc<OnceCell<Floor>>>,
    /// All floors that were read, in their order.
    seen: Mutex<Vec<u64>>,
}

/// A floor as it was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Floor {
    value: u64,
    /// The revision in which the key was last written.
    written: i64,
}

impl Floors {
    pub(crate) fn new(server: Arc<Server>, key: String) -> Self {
        let (current, seen) = Default::default();
        Self { server, key, current, seen }
    }

    /// The floor, which is read when it is first needed.
    pub(crate) async fn get(&self) -> Result<Floor, BackendError> {
        let current = self.current().clone();
        let read = || async {
            let floor = Box::pin(self.read()).await?;
            self.note(floor.value)?;
            Ok(floor)
        };
        current.get_or_try_init(read).await.copied()
    }

    /// Lets the floor be read anew when it is next needed.
    pub(crate) fn forget(&self) {
        *self.current() = Arc::default();
    }

    /// Reads the floor anew.
    pub(crate) async fn get_anew(&self) -> Result<Floor, BackendError> {
        self.forget();
        self.get().await
    }

    /// The revision in which the claim under this token was made; `None` if the token is not of this store.
    pub(crate) fn revision(&self, token: FencingToken) -> Option<i64> {
        // A floor is above all tokens of the floors before it.
        let floor = self.seen().iter().rev().find(|floor| **floor < token.get()).copied()?;
        i64::try_from(token.get() - floor).ok()
    }

    /// Lets `txn` be carried out only while the floor is as it was read.
    pub(crate) fn guard(&self, floor: Floor, txn: Txn) -> Txn {
        let same = Compare::mod_revision(&*self.key, CompareOp::Equal, floor.written);
        Txn::new().when([same]).and_then([TxnOp::txn(txn)])
    }

    /// The answer to a transaction under [`guard`](Self::guard).
    ///
    /// # Errors
    /// The floor has changed: nothing was done, and the next attempt reads it anew.
    pub(crate) fn guarded(&self, answer: &Answer) -> Result<Answer, BackendError> {
        if !answer.succeeded {
            self.forget();
            return Err(overtaken("the floor of tokens was raised"));
        }
        answer.of_each()?.pop().ok_or_else(|| unreadable("the answer of a claim"))
    }

    /// Reads the floor. Writes it if it is missing, or was written in another cluster.
    async fn read(&self) -> Result<Floor, BackendError> {
        let absent = Compare::create_revision(&*self.key, CompareOp::Equal, 0);
        let (mut last, mut unchanged) = (0, absent);
        // Each client that came in between has written a good one.
        for _ in 0..3 {
            let value = now().max(last + 1);
            let text = format!("{value} {:x}", self.server.cluster_id());
            let put = TxnOp::put(&*self.key, text, None);
            let txn = Txn::new().when([unchanged]).and_then([put]);
            let answer = self.server.txn(txn.or_else([TxnOp::get(&*self.key, None)])).await?;
            let found = match answer.parts.first() {
                _ if answer.succeeded => return Ok(Floor { value, written: answer.revision }),
                Some(TxnOpResponse::Get(found)) => found.kvs().first(),
                _ => return Err(unreadable("the floor of tokens")),
            };
            // `None` if it was deleted in between.
            let Some(found) = found else { break };
            let floor = self.read_value(found.value())?;
            if floor.cluster == self.server.cluster_id() {
                return Ok(Floor { value: floor.value, written: found.mod_revision() });
            }
            last = floor.value;
            unchanged = Compare::mod_revision(&*self.key, CompareOp::Equal, found.mod_revision());
        }
        Err(overtaken("the floor of tokens was not written"))
    }

    fn read_value(&self, value: &[u8]) -> Result<Written, BackendError> {
        let then = "the next client writes a later one, above all tokens so far";
        written(value).ok_or_else(|| not_understood(&self.key, "the floor of tokens", then))
    }

    /// Notes a floor that was read.
    fn note(&self, floor: u64) -> Result<(), BackendError> {
        let mut seen = self.seen();
        match seen.last() {
            Some(last) if *last > floor => Err(refusal("the floor of tokens has fallen")),
            Some(last) if *last == floor => Ok(()),
            _ => {
                seen.push(floor);
                Ok(())
            }
        }
    }

    fn current(&self) -> MutexGuard<'_, Arc<OnceCell<Floor>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Vec<u64>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Floor {
    /// The token of a claim that was made in this revision.
    pub(crate) fn token(self, revision: i64) -> Result<FencingToken, BackendError> {
        let token =
            u64::try_from(revision).ok().and_then(|revision| self.value.checked_add(revision));
        let token = token.and_then(|token| FencingToken::new(token).ok());
        token.ok_or_else(|| unreadable("a revision that makes no token"))
    }
}

/// Content of the key.
#[derive(Debug, PartialEq)]
struct Written {
    value: u64,
    cluster: u64,
}

fn written(value: &[u8]) -> Option<Written> {
    let (value, cluster) = str::from_utf8(value).ok()?.split_once(' ')?;
    let (value, cluster) = (value.parse().ok()?, u64::from_str_radix(cluster, 16).ok()?);
    (value < FencingToken::MAX.get()).then_some(Written { value, cluster })
}

/// The time in microseconds.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_micros().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use etcd_client::ConnectOptions;

    use super::*;

    fn floors() -> Floors {
        let server =
            Server::new(vec!["127.0.0.1:1".to_owned()], ConnectOptions::new(), String::new());
        Floors::new(Arc::new(server), "root/floor".to_owned())
    }

    #[test]
    fn c22_a_token_is_the_floor_and_a_revision() {
        let (floors, floor) = (floors(), Floor { value: 1_000, written: 7 });
        floors.note(floor.value).expect("the first");
        let token = floor.token(38).expect("a token");
        assert_eq!(token.get(), 1_038);
        assert_eq!(floors.revision(token), Some(38));
        assert_eq!(floors.revision(FencingToken::new(999).expect("a token")), None);
        assert!(Floor { value: FencingToken::MAX.get(), written: 1 }.token(1).is_err());
        assert!(floor.token(-1).is_err());
    }

    #[test]
    fn c22_a_floor_that_rises_leaves_earlier_tokens_theirs() {
        let floors = floors();
        let early = Floor { value: 1_000, written: 7 }.token(38).expect("a token");
        let late = Floor { value: 5_000, written: 90 }.token(91).expect("a token");
        for floor in [1_000, 1_000, 5_000] {
            floors.note(floor).expect("it rises");
        }
        assert_eq!((floors.revision(early), floors.revision(late)), (Some(38), Some(91)));
        assert!(floors.note(4_000).is_err(), "it has fallen");
    }

    #[test]
    fn c22_a_floor_that_is_not_understood_is_none() {
        let good = Written { value: 12, cluster: 0xab };
        assert_eq!(written(b"12 ab"), Some(good));
        for bad in
            ["", "12", "12 ", " ab", "-1 ab", "12 xy", "later:12 ab", "9007199254740991 a", "1 a b"]
        {
            assert_eq!(written(bad.as_bytes()), None, "{bad}");
        }
    }
}
