//! The transactions of the protocol.

use std::time::SystemTime;

use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
};
use lock_core::backend::Claim;
use lock_core::{FencingToken, Label, OwnerId};

use crate::keys::Root;
use crate::value;
use crate::view::{COUNTED, StoredClaim};

/// The keys of one claim.
#[derive(Clone)]
pub(crate) struct ClaimKeys {
    /// What all claims on the lock start with.
    pub(crate) range: String,
    pub(crate) own: String,
    pub(crate) withdrawn: String,
}

impl ClaimKeys {
    pub(crate) fn new(root: &Root, claim: &Claim) -> Self {
        Self {
            range: root.claims(&claim.name),
            own: root.claim(&claim.name, claim.owner),
            withdrawn: root.withdrawn(claim.owner),
        }
    }
}

/// Takes the lock on the lease `hold` if nobody has a claim on it. Else it takes a place in the queue, if
/// there is a lease for one and the claim has no place yet, and looks. A claim that was withdrawn gets
/// neither (C19).
pub(crate) fn enter(keys: &ClaimKeys, label: &Label, hold: i64, place: Option<i64>) -> Txn {
    let put = |value: String, lease: i64| {
        TxnOp::put(&*keys.own, value, Some(PutOptions::new().with_lease(lease)))
    };
    let nobody = Compare::create_revision(&*keys.range, CompareOp::Equal, 0).with_prefix();
    let is_wanted = Compare::create_revision(&*keys.withdrawn, CompareOp::Equal, 0);
    let absent = Compare::create_revision(&*keys.own, CompareOp::Equal, 0);
    let mut otherwise = view(keys, None);
    otherwise.push(TxnOp::get(&*keys.withdrawn, Some(GetOptions::new().with_count_only())));
    if let Some(lease) = place {
        let queue = Txn::new()
            .when([absent, is_wanted.clone()])
            .and_then([put(value::of_waiter(label), lease)]);
        otherwise.insert(0, TxnOp::txn(queue));
    }
    let take = put(value::of_holder(label, SystemTime::now()), hold);
    Txn::new().when([nobody, is_wanted]).and_then([take]).or_else(otherwise)
}

/// Looks at the place of a claim that has one, and at all before it: the server reads the whole queue.
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
        before = before.with_max_create_revision(revision(token));
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

/// Reads several keys, and nothing else: what a waiter polls, and what proves holds.
pub(crate) fn read(keys: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Txn {
    let reads =
        keys.into_iter().map(|key| TxnOp::get(key, Some(GetOptions::new().with_keys_only())));
    Txn::new().and_then(reads.collect::<Vec<_>>())
}

/// Moves the key of a hold to another lease, if it is still the same hold on the same lease. Otherwise it
/// reads the key. The create revision stays.
pub(crate) fn reattach(key: &str, token: FencingToken, from: i64, to: i64) -> Txn {
    let same_hold = Compare::create_revision(key, CompareOp::Equal, revision(token));
    let same_lease = Compare::lease(key, CompareOp::Equal, from);
    let options = PutOptions::new().with_lease(to).with_ignore_value();
    let put = TxnOp::put(key, "", Some(options));
    let in_use = Compare::value(key, CompareOp::Less, value::RETIRED);
    Txn::new()
        .when([same_hold, same_lease, in_use])
        .and_then([put])
        .or_else([TxnOp::get(key, None)])
}

/// Leaves a hold that was seen to nobody, on a lease of its own (C41), if it is there and the first of all claims
/// on the lock. The create revision stays, and so does its place before those that wait.
pub(crate) fn retire(range: &str, held: &StoredClaim, lease: i64) -> Txn {
    let revision = revision(held.token);
    let same_hold = Compare::create_revision(&*held.key, CompareOp::Equal, revision);
    let is_first = Compare::create_revision(range, CompareOp::Greater, revision - 1).with_prefix();
    let options = Some(PutOptions::new().with_lease(lease));
    let put = TxnOp::put(&*held.key, value::retired(&held.value), options);
    Txn::new().when([same_hold, is_first]).and_then([put])
}

/// Records a run under a key of its own, if its hold is in force under its token (C42).
pub(crate) fn record(own: &str, run: &str, token: FencingToken, lease: i64) -> Txn {
    let same_hold = Compare::create_revision(own, CompareOp::Equal, revision(token));
    let in_use = Compare::value(own, CompareOp::Less, value::RETIRED);
    let options = Some(PutOptions::new().with_lease(lease));
    Txn::new().when([same_hold, in_use]).and_then([TxnOp::put(run, token.to_string(), options)])
}

/// Takes a claim back: no request of it that comes later is carried out while the mark is there (C19). A hold
/// that outlasts its work stays (C41).
pub(crate) fn withdraw(own: &str, root: &Root, owner: OwnerId, lease: i64) -> Txn {
    let options = Some(PutOptions::new().with_lease(lease));
    let mark = TxnOp::put(root.withdrawn(owner), "", options);
    let is_retired = Compare::value(own, CompareOp::Greater, [value::RETIRED[0] - 1]);
    let delete = TxnOp::delete(own, None);
    Txn::new().when([is_retired]).and_then([mark.clone()]).or_else([delete, mark])
}

/// Deletes a claim's key if it is still the one that was seen, and tells what it was.
pub(crate) fn delete(entry: &StoredClaim) -> Txn {
    let same = Compare::create_revision(&*entry.key, CompareOp::Equal, revision(entry.token));
    let options = Some(DeleteOptions::new().with_prev_key());
    Txn::new().when([same]).and_then([TxnOp::delete(&*entry.key, options)])
}

/// Deletes a key if it is on one of the leases.
pub(crate) fn delete_if_on(key: impl Into<Vec<u8>>, leases: impl Iterator<Item = i64>) -> Txn {
    let key = key.into();
    leases.fold(Txn::new(), |otherwise, lease| {
        let is_on = Compare::lease(key.clone(), CompareOp::Equal, lease);
        let txn = Txn::new().when([is_on]).and_then([TxnOp::delete(key.clone(), None)]);
        txn.or_else([TxnOp::txn(otherwise)])
    })
}

fn revision(token: FencingToken) -> i64 {
    token.get().cast_signed()
}
