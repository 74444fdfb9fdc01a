//! What the answers to the protocol's transactions say.

use std::time::Duration;

use etcd_client::{GetResponse, KeyValue, TxnOpResponse, TxnResponse};
use lock_core::backend::ServerTime;
use lock_core::{BackendError, FencingToken, Kind};

use crate::error::{unreadable, withdrawn};
use crate::standing::{Ahead, Before, Standing};
use crate::stored_claim::{StoredClaim, token};

const WHAT: &str = "what a claim sees";

/// What came of entering.
pub(crate) enum Entered {
    /// The claim was put as the only one: it holds.
    Taken(FencingToken),
    /// Others have claims.
    Seen(Box<View>),
}

/// What a claim sees of its lock.
pub(crate) struct View {
    pub(crate) own: Option<StoredClaim>,
    /// The claim that was made first.
    pub(crate) first: Option<StoredClaim>,
    /// The claims in the way of our own; `None` if those that were read do not tell.
    pub(crate) ahead: Option<Ahead>,
    /// What these claims make of ours.
    pub(crate) standing: Standing,
    /// The revision of the store in which this was so.
    pub(crate) revision: i64,
}

impl View {
    /// When this was so.
    pub(crate) fn at(&self) -> ServerTime {
        time(self.revision)
    }

    /// Reads the answer to [`look`](crate::requests::look).
    pub(crate) fn of(kind: Kind, response: &TxnResponse) -> Result<Self, BackendError> {
        Self::read(kind, response, response.op_responses())
    }

    fn read(
        kind: Kind,
        response: &TxnResponse,
        mut answers: Vec<TxnOpResponse>,
    ) -> Result<Self, BackendError> {
        let mut next = || match answers.pop() {
            Some(TxnOpResponse::Get(answer)) => Ok(answer),
            _ => Err(unreadable(WHAT)),
        };
        let (latest, first, own) = (next()?, next()?, next()?);
        let entry = |pair: Option<&KeyValue>| pair.map(StoredClaim::of).transpose();
        let (first, own) = (entry(first.kvs().first())?, entry(own.kvs().first())?);
        let read = latest.kvs().iter().map(StoredClaim::of).collect::<Result<Vec<_>, _>>()?;
        let before = Before::of(kind, own.as_ref(), read);
        let ahead = before.as_ref().map(|before| before.ahead(kind, first.as_ref()));
        let standing = Standing::of(kind, own.as_ref(), first.as_ref(), before.as_ref());
        Ok(Self { own, first, ahead, standing, revision: revision(response)? })
    }
}

/// Reads the answer to [`enter`](crate::requests::enter). The error may be that the claim was withdrawn.
pub(crate) fn entered(kind: Kind, response: &TxnResponse) -> Result<Entered, BackendError> {
    if response.succeeded() {
        return written(response).map(Entered::Taken);
    }
    let mut answers = response.op_responses();
    match answers.pop() {
        Some(TxnOpResponse::Get(mark)) if mark.count() > 0 => Err(withdrawn()),
        Some(TxnOpResponse::Get(_)) => {
            let view = View::read(kind, response, answers)?;
            Ok(Entered::Seen(Box::new(view)))
        }
        _ => Err(unreadable(WHAT)),
    }
}

/// The token of a claim whose key was made by this transaction.
pub(crate) fn written(response: &TxnResponse) -> Result<FencingToken, BackendError> {
    // A key that is created in a transaction has the transaction's revision.
    token(revision(response)?)
}

/// Reads the answer to [`read`](crate::requests::read), in the order of the keys.
pub(crate) fn entries(response: &TxnResponse) -> Result<Vec<Option<StoredClaim>>, BackendError> {
    let entry = |answer: TxnOpResponse| match answer {
        TxnOpResponse::Get(answer) => answer.kvs().first().map(StoredClaim::of).transpose(),
        _ => Err(unreadable("the state of claims")),
    };
    response.op_responses().into_iter().map(entry).collect()
}

/// What came of a transaction that leaves a hold alone which outlasts its work; `None` if it is such a hold.
pub(crate) fn unless_retired(response: &TxnResponse) -> Result<Option<TxnResponse>, BackendError> {
    match response.op_responses().pop() {
        _ if response.succeeded() => Ok(None),
        Some(TxnOpResponse::Txn(inner)) => Ok(Some(inner)),
        _ => Err(unreadable("the answer to a transaction")),
    }
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
    revision(response).map(time)
}

fn time(revision: i64) -> ServerTime {
    ServerTime(Duration::from_nanos(revision.unsigned_abs()))
}

fn revision(response: &TxnResponse) -> Result<i64, BackendError> {
    let header = response.header().ok_or_else(|| unreadable("an answer without a revision"))?;
    Ok(header.revision())
}
