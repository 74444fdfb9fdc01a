//! The transactions of the protocol, and how their answers are read.

use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, KeyValue, PutOptions, SortOrder, SortTarget,
    Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use lock_core::backend::{Claim, ServerTime};
use lock_core::{BackendError, FencingToken, Label};
use std::time::{Duration, SystemTime};

use crate::claims::ClaimLeases;
use crate::error::unreadable;
use crate::keys::Root;
use crate::lease_id::LeaseId;
use crate::value;

/// Up to how many claims before ours in the queue are counted. Every look of a waiter reads their keys, so
/// that a count without bound would cost the square of the queue's length.
const COUNTED: i64 = 16;

/// The keys of one claim.
pub(crate) struct ClaimKeys {
    /// What all claims on the lock start with.
    pub(crate) range: String,
    pub(crate) own: String,
}

impl ClaimKeys {
    pub(crate) fn new(root: &Root, claim: &Claim) -> Self {
        Self { range: root.claims(&claim.name), own: root.claim(&claim.name, claim.owner) }
    }
}

/// Takes the lock if nobody has a claim on it. Else it takes a place in the queue, if there is a lease for
/// one and the claim has no place yet, and looks. If the claim had its place already and many came after
/// it, it does not see the claim before its own: [`look`] does.
pub(crate) fn enter(keys: &ClaimKeys, label: &Label, leases: ClaimLeases) -> Txn {
    let put = |value: String, lease: LeaseId| {
        let options = PutOptions::new().with_lease(lease.get());
        TxnOp::put(&*keys.own, value, Some(options))
    };
    let put_waiter = |lease| put(value::of_waiter(label), lease);
    let put_holder = |lease| put(value::of_holder(label, SystemTime::now()), lease);
    let nobody = Compare::create_revision(&*keys.range, CompareOp::Equal, 0).with_prefix();
    let absent = Compare::create_revision(&*keys.own, CompareOp::Equal, 0);
    let queue = leases.queue.map(|lease| Txn::new().when([absent]).and_then([put_waiter(lease)]));
    let mut otherwise: Vec<TxnOp> = queue.map(TxnOp::txn).into_iter().collect();
    otherwise.extend(view(keys, None));
    let mut take: Vec<TxnOp> = leases.full.map(put_holder).into_iter().collect();
    take.push(TxnOp::get(&*keys.own, None));
    Txn::new().when([nobody]).and_then(take).or_else(otherwise)
}

/// Looks at the place of a claim that has one.
pub(crate) fn look(keys: &ClaimKeys, token: FencingToken) -> Txn {
    Txn::new().and_then(view(keys, Some(token)))
}

/// Reads the own key, the holder's, and the keys up to our own, the latest first. A place that was
/// taken in the same transaction is the latest of all.
fn view(keys: &ClaimKeys, token: Option<FencingToken>) -> Vec<TxnOp> {
    let mut before = GetOptions::new()
        .with_prefix()
        .with_keys_only()
        .with_sort(SortTarget::Create, SortOrder::Descend)
        .with_limit(COUNTED + 2);
    if let Some(token) = token {
        before = before.with_max_create_revision(token.get() as i64);
    }
    vec![
        TxnOp::get(&*keys.own, None),
        TxnOp::get(&*keys.range, Some(first())),
        TxnOp::get(&*keys.range, Some(before)),
    ]
}

/// The claim that was made first: the holder's.
pub(crate) fn first() -> GetOptions {
    GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend).with_limit(1)
}

/// Moves the key of a hold to another lease, if it is still the same hold on the same lease. Otherwise it
/// reads the key.
pub(crate) fn reattach(key: &str, token: FencingToken, from: i64, to: LeaseId) -> Txn {
    let same_hold = Compare::create_revision(key, CompareOp::Equal, token.get() as i64);
    let same_lease = Compare::lease(key, CompareOp::Equal, from);
    let options = PutOptions::new().with_lease(to.get()).with_ignore_value();
    let put = TxnOp::put(key, "", Some(options));
    Txn::new().when([same_hold, same_lease]).and_then([put]).or_else([TxnOp::get(key, None)])
}

/// Deletes a claim's key if it is still the one that was seen, and tells what it was.
pub(crate) fn delete(entry: &StoredClaim) -> Txn {
    let same = Compare::create_revision(&*entry.key, CompareOp::Equal, entry.token.get() as i64);
    let options = Some(DeleteOptions::new().with_prev_key());
    Txn::new().when([same]).and_then([TxnOp::delete(&*entry.key, options)])
}

/// Reads the answer to [`delete`]: the claim as it was in the end, which may have another lease than
/// when it was seen; `None` if it went by itself.
pub(crate) fn deleted(response: &TxnResponse) -> Result<Option<StoredClaim>, BackendError> {
    match response.op_responses().pop() {
        Some(TxnOpResponse::Delete(deleted)) => {
            deleted.prev_kvs().first().map(StoredClaim::of).transpose()
        }
        Some(_) => Err(unreadable("the end of a claim")),
        None => Ok(None),
    }
}

/// Reads several keys.
pub(crate) fn read(keys: impl Iterator<Item = String>) -> Txn {
    Txn::new().and_then(keys.map(|key| TxnOp::get(key, None)).collect::<Vec<_>>())
}

/// A claim's key as it is in the store.
#[derive(Clone, Debug)]
pub(crate) struct StoredClaim {
    pub(crate) key: Vec<u8>,
    pub(crate) token: FencingToken,
    pub(crate) lease: Option<LeaseId>,
    pub(crate) label: Label,
    /// When it was granted, on the holder's wall clock, if it was granted at once (C45).
    pub(crate) since: Option<SystemTime>,
}

impl StoredClaim {
    pub(crate) fn of(pair: &KeyValue) -> Result<Self, BackendError> {
        let token = u64::try_from(pair.create_revision()).ok();
        let token = token.and_then(|token| FencingToken::new(token).ok());
        let (label, since) = value::read(pair.value());
        Ok(Self {
            key: pair.key().to_vec(),
            token: token.ok_or_else(|| unreadable("a revision that is no token"))?,
            lease: LeaseId::on_key(pair.lease()),
            label,
            since,
        })
    }
}

const WHAT: &str = "what a claim sees";

/// What a claim sees of its lock.
pub(crate) struct View {
    pub(crate) own: Option<StoredClaim>,
    /// Whether this request took the lock.
    pub(crate) taken: bool,
    pub(crate) first: Option<StoredClaim>,
    /// The claim that was made last before ours, if our claim is among those that were read.
    pub(crate) predecessor: Option<Vec<u8>>,
    /// How many are before us, not counting the holder, if they are few enough to count.
    pub(crate) position: Option<u64>,
    /// When this was so.
    pub(crate) at: ServerTime,
}

impl View {
    /// Reads the answer to [`enter`].
    pub(crate) fn on_entering(response: &TxnResponse) -> Result<Self, BackendError> {
        if !response.succeeded() {
            return Self::of(response);
        }
        let Some(TxnOpResponse::Get(own)) = response.op_responses().pop() else {
            return Err(unreadable(WHAT));
        };
        let own = own.kvs().first().map(StoredClaim::of).transpose()?;
        let (first, at) = (own.clone(), server_time(response)?);
        Ok(Self { own, taken: true, first, predecessor: None, position: Some(0), at })
    }

    /// Reads the answer to [`look`].
    pub(crate) fn of(response: &TxnResponse) -> Result<Self, BackendError> {
        let mut answers = response.op_responses();
        let mut next = || match answers.pop() {
            Some(TxnOpResponse::Get(answer)) => Ok(answer),
            _ => Err(unreadable(WHAT)),
        };
        let (before, first, own) = (next()?, next()?, next()?);
        let entry = |pair: Option<&KeyValue>| pair.map(StoredClaim::of).transpose();
        let (first, own) = (entry(first.kvs().first())?, entry(own.kvs().first())?);
        let place =
            own.as_ref().and_then(|own| before.kvs().iter().position(|pair| pair.key() == own.key));
        let ahead = place.map(|place| &before.kvs()[place + 1..]);
        let counted = before.kvs().len() <= COUNTED as usize + 1;
        Ok(Self {
            predecessor: ahead.and_then(|keys| Some(keys.first()?.key().to_vec())),
            position: ahead.filter(|_| counted).map(|keys| keys.len().saturating_sub(1) as u64),
            at: server_time(response)?,
            own,
            taken: false,
            first,
        })
    }

    /// The own claim, if it is the first: then the lock is ours.
    pub(crate) fn held(&self) -> Option<&StoredClaim> {
        let (own, first) = (self.own.as_ref()?, self.first.as_ref()?);
        (own.key == first.key).then_some(own)
    }
}

/// The revision as a clock: a nanosecond for each, which no server outruns. A span between two
/// revisions is therefore never longer than the time that passed.
fn server_time(response: &TxnResponse) -> Result<ServerTime, BackendError> {
    let revision = response.header().map(|header| header.revision());
    let nanos = revision.and_then(|revision| u64::try_from(revision).ok());
    let nanos = nanos.ok_or_else(|| unreadable("an answer without a revision"))?;
    Ok(ServerTime(Duration::from_nanos(nanos)))
}

/// Reads the answer to [`read`], in the order of the keys.
pub(crate) fn entries(response: &TxnResponse) -> Result<Vec<Option<StoredClaim>>, BackendError> {
    let entry = |answer: TxnOpResponse| match answer {
        TxnOpResponse::Get(answer) => answer.kvs().first().map(StoredClaim::of).transpose(),
        _ => Err(unreadable("the state of claims")),
    };
    response.op_responses().into_iter().map(entry).collect()
}
