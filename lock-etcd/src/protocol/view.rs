//! Reads the answers to the protocol's transactions.

use std::time::Duration;

use etcd_client::{GetResponse, KeyValue, TxnOpResponse};
use lock_core::backend::ServerTime;
use lock_core::{BackendError, Contention, Kind, Label, OwnerId};

use crate::layout::stored_claim::StoredClaim;
use crate::protocol::requests::{self, ClaimKeys};
use crate::protocol::standing::{Ahead, Before, Standing};
use crate::wire::answer::Answer;
use crate::wire::error::{BACKEND, unreadable};
use crate::wire::server::Server;

const WHAT: &str = "what a claim sees";

/// A claim's view of its lock.
pub(crate) struct View {
    pub(crate) own: Option<StoredClaim>,
    /// The claim that was made first.
    pub(crate) first: Option<StoredClaim>,
    /// The claims for which our own must wait; `None` if too few were read to know.
    pub(crate) ahead: Option<Ahead>,
    /// The first of these that waits for permits: its number of them, and its label.
    first_waiter: Option<(u16, Label)>,
    /// Standing of our claim among these.
    pub(crate) standing: Standing,
    /// The revision of the store at the read.
    pub(crate) revision: i64,
}

impl View {
    /// Returns the time of the read.
    pub(crate) fn at(&self) -> ServerTime {
        server_time(self.revision)
    }

    /// Describes the first claim to one that waits, except for its remaining time.
    pub(crate) fn contention(&self) -> Contention {
        let mut contention = Contention::unknown();
        contention.at = Some(self.at());
        contention.is_untaken = self.first.as_ref().is_some_and(|first| !first.is_claimed());
        if let Some(first) = self.first.as_ref().filter(|first| first.is_claimed()) {
            // C49: claims of our clients have a lease.
            contention.foreign_without_ttl = first.lease == 0;
            contention.holder = Some(first.value.label.clone());
            // C33: all holders count as the first one does.
            contention.permits = first.kind().permits();
        }
        contention.first_waiter = self.first_waiter.clone().map(Box::new);
        contention
    }

    /// Returns true if a waiter whose turn has come may be dead.
    pub(crate) fn may_be_dead(&self) -> bool {
        self.first.as_ref().is_some_and(StoredClaim::leaves_doubt)
    }

    /// [Looks](requests::look) at the lock for the claim of `owner`.
    pub(crate) async fn read(
        server: &Server,
        keys: &ClaimKeys,
        (kind, owner): (Kind, OwnerId),
        made: Option<i64>,
    ) -> Result<Self, BackendError> {
        let mut answer = server.txn(requests::look(keys, kind, made)).await?;
        let mut next = || match answer.parts.pop() {
            Some(TxnOpResponse::Get(answer)) => Ok(answer),
            _ => Err(unreadable(WHAT)),
        };
        let (latest, first, own) = (next()?, next()?, next()?);
        let entry = |pair: Option<&KeyValue>| pair.map(StoredClaim::of);
        let (first, own) = (entry(first.kvs().first()), entry(own.kvs().first()));
        // C16: a key is our claim's only if our claim wrote it.
        let own = own.filter(|own| own.value.owner == Some(owner));
        let read = latest.kvs().iter().map(StoredClaim::of).collect();
        let before = Before::of(kind, own.as_ref(), read);
        let ahead = before.as_ref().map(|before| before.ahead(kind, first.as_ref()));
        let first_waiter = before.as_ref().and_then(Before::first_waiter);
        let standing = Standing::of(kind, own.as_ref(), first.as_ref(), before.as_ref());
        Ok(Self { own, first, ahead, first_waiter, standing, revision: answer.revision })
    }
}

/// Returns true if [`enter`](crate::protocol::requests::enter) put the claim as the only one, or as a shared one beside
/// others: it holds. A withdrawn claim is an error.
pub(crate) fn is_taken(kind: Kind, answer: &Answer) -> Result<bool, BackendError> {
    match &answer.parts[..] {
        _ if answer.succeeded => Ok(true),
        [.., TxnOpResponse::Get(mark)] if mark.count() > 0 => Err(BackendError::withdrawn(BACKEND)),
        [TxnOpResponse::Txn(beside), _] if kind == Kind::Shared => Ok(beside.succeeded()),
        [.., TxnOpResponse::Get(_)] => Ok(false),
        _ => Err(unreadable(WHAT)),
    }
}

/// Reads the answer to [`read`](crate::protocol::requests::read), in the order of the keys.
pub(crate) fn entries(answer: &Answer) -> Result<Vec<Option<StoredClaim>>, BackendError> {
    let entry = |part: &TxnOpResponse| match part {
        TxnOpResponse::Get(answer) => Ok(answer.kvs().first().map(StoredClaim::of)),
        _ => Err(unreadable("the state of claims")),
    };
    answer.parts.iter().map(entry).collect()
}

/// Reads the answer about one key.
pub(crate) fn only(found: &GetResponse) -> Option<StoredClaim> {
    found.kvs().first().map(StoredClaim::of)
}

/// Reads the answer to [`delete`](crate::protocol::requests::delete): the last state of the claim; `None` if it was
/// gone already.
pub(crate) fn deleted(answer: &Answer) -> Result<Option<StoredClaim>, BackendError> {
    match answer.parts.last() {
        Some(TxnOpResponse::Delete(deleted)) => Ok(deleted.prev_kvs().first().map(StoredClaim::of)),
        Some(_) => Err(unreadable("the end of a claim")),
        None => Ok(None),
    }
}

/// Reads the answer to a put: the former state of the key; `None` if there was none.
pub(crate) fn replaced(answer: &Answer) -> Option<&KeyValue> {
    match answer.parts.last() {
        Some(TxnOpResponse::Put(put)) => put.prev_key(),
        _ => None,
    }
}

/// Returns the revision as a clock: a nanosecond for each, which is faster than any server. So a span between two
/// revisions is never longer than the time that passed.
pub(crate) fn server_time(revision: i64) -> ServerTime {
    ServerTime(Duration::from_nanos(revision.unsigned_abs()))
}
