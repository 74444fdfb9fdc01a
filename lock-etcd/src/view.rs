//! What the answers to the protocol's transactions say.

use std::time::{Duration, SystemTime};

use etcd_client::{GetResponse, KeyValue, TxnOpResponse, TxnResponse};
use lock_core::backend::ServerTime;
use lock_core::{BackendError, FencingToken, Label};

use crate::error::{unreadable, withdrawn};
use crate::value;

/// Up to how many claims before ours in the queue are counted, and known by their keys.
pub(crate) const COUNTED: i64 = 16;

const WHAT: &str = "what a claim sees";

/// A claim's key as it is in the store.
#[derive(Clone, Debug)]
pub(crate) struct StoredClaim {
    pub(crate) key: Vec<u8>,
    pub(crate) token: FencingToken,
    /// 0 if it has none.
    pub(crate) lease: i64,
    pub(crate) label: Label,
    /// When it was granted, on the holder's wall clock, if it was granted at once (C45).
    pub(crate) since: Option<SystemTime>,
    /// Its value as it is in the store, if that was read.
    pub(crate) value: Vec<u8>,
}

impl StoredClaim {
    pub(crate) fn of(pair: &KeyValue) -> Result<Self, BackendError> {
        let (label, since) = value::read(pair.value());
        let token = token(pair.create_revision())?;
        let (key, value) = (pair.key().to_vec(), pair.value().to_vec());
        Ok(Self { key, token, lease: pair.lease(), label, since, value })
    }

    /// Whether it is a hold that outlasts its work (C41): it is nobody's.
    pub(crate) fn is_retired(&self) -> bool {
        self.value.starts_with(&value::RETIRED)
    }
}

/// The claims before one in its queue, the latest first. Nobody can come before it later: the list only
/// shrinks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ahead {
    pub(crate) keys: Vec<Vec<u8>>,
    /// Whether those are all.
    pub(crate) is_whole: bool,
}

impl Ahead {
    /// How many are before us, not counting the holder.
    pub(crate) fn position(&self) -> Option<u64> {
        self.is_whole.then(|| self.keys.len().saturating_sub(1) as u64)
    }

    /// Whether nobody is before us, so that the lock is ours if our own claim is there.
    pub(crate) fn is_none(&self) -> bool {
        self.is_whole && self.keys.is_empty()
    }
}

/// What came of entering.
pub(crate) enum Entered {
    /// The claim was put as the only one: it holds.
    Taken(FencingToken),
    /// Others have claims.
    Seen(View),
}

/// What a claim sees of its lock.
pub(crate) struct View {
    pub(crate) own: Option<StoredClaim>,
    /// The holder's claim.
    pub(crate) first: Option<StoredClaim>,
    /// The claims before our own; `None` if it was not among those that were read.
    pub(crate) ahead: Option<Ahead>,
    /// When this was so.
    pub(crate) at: ServerTime,
}

impl View {
    /// The own claim, if it is the first: then the lock is ours.
    pub(crate) fn held(&self) -> Option<&StoredClaim> {
        let (own, first) = (self.own.as_ref()?, self.first.as_ref()?);
        (own.key == first.key).then_some(own)
    }

    /// Reads the answer to [`look`](crate::requests::look).
    pub(crate) fn of(response: &TxnResponse) -> Result<Self, BackendError> {
        Self::read(response, response.op_responses())
    }

    fn read(response: &TxnResponse, mut answers: Vec<TxnOpResponse>) -> Result<Self, BackendError> {
        let mut next = || match answers.pop() {
            Some(TxnOpResponse::Get(answer)) => Ok(answer),
            _ => Err(unreadable(WHAT)),
        };
        let (before, first, own) = (next()?, next()?, next()?);
        let entry = |pair: Option<&KeyValue>| pair.map(StoredClaim::of).transpose();
        let (first, own) = (entry(first.kvs().first())?, entry(own.kvs().first())?);
        let place =
            own.as_ref().and_then(|own| before.kvs().iter().position(|pair| pair.key() == own.key));
        let ahead = place.map(|place| Ahead {
            keys: before.kvs()[place + 1..].iter().map(|pair| pair.key().to_vec()).collect(),
            is_whole: before.kvs().len() <= COUNTED as usize + 1,
        });
        Ok(Self { own, first, ahead, at: server_time(response)? })
    }
}

/// Reads the answer to [`enter`](crate::requests::enter). The error may be that the claim was withdrawn.
pub(crate) fn entered(response: &TxnResponse) -> Result<Entered, BackendError> {
    if response.succeeded() {
        // A key that is created in a transaction has the transaction's revision.
        return Ok(Entered::Taken(token(revision(response)?)?));
    }
    let mut answers = response.op_responses();
    match answers.pop() {
        Some(TxnOpResponse::Get(mark)) if mark.count() > 0 => Err(withdrawn()),
        Some(TxnOpResponse::Get(_)) => View::read(response, answers).map(Entered::Seen),
        _ => Err(unreadable(WHAT)),
    }
}

/// Reads the answer to [`read`](crate::requests::read), in the order of the keys.
pub(crate) fn entries(response: &TxnResponse) -> Result<Vec<Option<StoredClaim>>, BackendError> {
    let entry = |answer: TxnOpResponse| match answer {
        TxnOpResponse::Get(answer) => answer.kvs().first().map(StoredClaim::of).transpose(),
        _ => Err(unreadable("the state of claims")),
    };
    response.op_responses().into_iter().map(entry).collect()
}

/// Reads the answer about one key.
pub(crate) fn only(found: &GetResponse) -> Result<Option<StoredClaim>, BackendError> {
    found.kvs().first().map(StoredClaim::of).transpose()
}

/// Reads the answer to [`delete`](crate::requests::delete): the claim as it was in the end; `None` if it
/// went by itself.
pub(crate) fn deleted(response: &TxnResponse) -> Result<Option<StoredClaim>, BackendError> {
    match response.op_responses().pop() {
        Some(TxnOpResponse::Delete(deleted)) => {
            deleted.prev_kvs().first().map(StoredClaim::of).transpose()
        }
        Some(_) => Err(unreadable("the end of a claim")),
        None => Ok(None),
    }
}

/// The revision as a clock: a nanosecond for each, which no server outruns. A span between two
/// revisions is therefore never longer than the time that passed.
pub(crate) fn server_time(response: &TxnResponse) -> Result<ServerTime, BackendError> {
    Ok(ServerTime(Duration::from_nanos(revision(response)?.unsigned_abs())))
}

fn revision(response: &TxnResponse) -> Result<i64, BackendError> {
    let header = response.header().ok_or_else(|| unreadable("an answer without a revision"))?;
    Ok(header.revision())
}

fn token(revision: i64) -> Result<FencingToken, BackendError> {
    let token = u64::try_from(revision).ok().and_then(|token| FencingToken::new(token).ok());
    token.ok_or_else(|| unreadable("a revision that is no token"))
}
