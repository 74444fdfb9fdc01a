//! The transactions of the protocol.

use std::sync::Arc;
use std::time::SystemTime;

use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
};
use lock_core::backend::Claim;
use lock_core::{FencingToken, Kind, OwnerId, Slots};

use crate::layout::keys::Root;
use crate::layout::stored_claim::StoredClaim;
use crate::layout::value;
use crate::protocol::standing::{COUNTED, first_slots, read_before};
use crate::protocol::view::View;

/// The keys of one claim.
#[derive(Clone)]
pub(crate) struct ClaimKeys {
    /// Start of the keys of all claims on the lock.
    pub(crate) range: String,
    pub(crate) own: Arc<str>,
    pub(crate) withdrawn: String,
}

impl ClaimKeys {
    pub(crate) fn new(root: &Root, claim: &Claim, own: Arc<str>) -> Self {
        Self { range: root.claims(&claim.name), own, withdrawn: root.withdrawn(claim.owner) }
    }
}

/// Takes the lock on a lease if nobody has a claim on it. A shared claim also takes it if all claims are shared.
/// Otherwise, if the claim waits and has no place yet, it takes a place in the queue on the same lease. A withdrawn
/// claim gets neither (C19). Looking is a separate read, since nothing else is written while the server reads a long queue.
pub(crate) fn enter(keys: &ClaimKeys, claim: &Claim, lease: i64, waits: bool) -> Txn {
    let (kind, is_wanted) = (claim.kind, is_wanted(keys));
    let absent = Compare::create_revision(&*keys.own, CompareOp::Equal, 0);
    let mark = TxnOp::get(&*keys.withdrawn, Some(GetOptions::new().with_count_only()));
    let take = take(keys, claim, lease);
    let mut enqueue = waits.then(|| {
        let queue = Txn::new().when([absent.clone(), is_wanted.clone()]).and_then([put(
            keys,
            value::of_waiter(claim),
            lease,
        )]);
        TxnOp::txn(queue)
    });
    if kind == Kind::Shared {
        // C34: it passes no claim of another kind, even one that waits.
        let all_shared = Compare::value(&*keys.range, CompareOp::Greater, value::BELOW_SHARED);
        let beside = Txn::new()
            .when([all_shared.with_prefix(), absent, is_wanted.clone()])
            .and_then([take.clone()])
            .or_else(enqueue.into_iter().collect::<Vec<_>>());
        enqueue = Some(TxnOp::txn(beside));
    }
    let otherwise = enqueue.into_iter().chain([mark]).collect::<Vec<_>>();
    Txn::new().when(is_free(keys)).and_then([take]).or_else(otherwise)
}

/// Returns the conditions that nobody has a claim on the lock, and that our claim was not withdrawn.
fn is_free(keys: &ClaimKeys) -> [Compare; 2] {
    let nobody = Compare::create_revision(&*keys.range, CompareOp::Equal, 0).with_prefix();
    [nobody, is_wanted(keys)]
}

/// Makes the claim the holder. No claim is before it.
fn take(keys: &ClaimKeys, claim: &Claim, hold: i64) -> TxnOp {
    put(keys, value::of_holder(claim, &first_slots(claim.kind), SystemTime::now()), hold)
}

fn put(keys: &ClaimKeys, value: Vec<u8>, lease: i64) -> TxnOp {
    TxnOp::put(&*keys.own, value, Some(PutOptions::new().with_lease(lease)))
}

/// Writes the slots of a claim on permits, which then holds, on the lease `hold`. A claim with a place needs an
/// unchanged key since its look; a claim without a place needs that no claim was made since its look.
pub(crate) fn take_slots(
    keys: &ClaimKeys,
    claim: &Claim,
    slots: &Slots,
    hold: i64,
    view: &View,
) -> Txn {
    let unchanged = match &view.own {
        Some(own) => vec![Compare::mod_revision(&*keys.own, CompareOp::Equal, own.modified)],
        None => {
            let nobody_new =
                Compare::create_revision(&*keys.range, CompareOp::Less, view.revision + 1);
            let absent = Compare::create_revision(&*keys.own, CompareOp::Equal, 0);
            vec![nobody_new.with_prefix(), absent, is_wanted(keys)]
        }
    };
    let value = value::of_holder(claim, slots, SystemTime::now());
    Txn::new().when(unchanged).and_then([put(keys, value, hold)])
}

/// Returns the condition that the claim was not withdrawn (C19).
fn is_wanted(keys: &ClaimKeys) -> Compare {
    Compare::create_revision(&*keys.withdrawn, CompareOp::Equal, 0)
}

/// Looks at the place of a claim, and at all before it: the server reads the whole queue.
///
/// Reads the own key, the holder's, and the claims up to our own, at most as many as [`read_before`]. Claims that were
/// made after the revision `made` are left out.
pub(crate) fn look(keys: &ClaimKeys, kind: Kind, made: Option<i64>) -> Txn {
    let before = GetOptions::new().with_prefix().with_limit(read_before(kind));
    let mut before = match kind {
        // Claims of other kinds come first.
        Kind::Shared => before.with_sort(SortTarget::Value, SortOrder::Ascend),
        // The latest come first.
        Kind::OneOf(_) => before.with_sort(SortTarget::Create, SortOrder::Descend),
        _ => before.with_sort(SortTarget::Create, SortOrder::Descend).with_keys_only(),
    };
    if let Some(made) = made {
        before = before.with_max_create_revision(made);
    }
    Txn::new().and_then([
        TxnOp::get(&*keys.own, None),
        TxnOp::get(&*keys.range, Some(first())),
        TxnOp::get(&*keys.range, Some(before)),
    ])
}

/// Returns the options to read the first claim: the holder's.
pub(crate) fn first() -> GetOptions {
    GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend).with_limit(1)
}

/// Returns the most claims at the front of a queue that a claim of this kind reads: all that hold permits, and enough of
/// those behind to know all claims before them.
pub(crate) fn front_of(kind: Kind) -> u16 {
    COUNTED.saturating_add(kind.permits())
}

/// Reads the first claims for one of this kind, before the place that was made in this revision.
pub(crate) fn front(keys: &ClaimKeys, revision: i64, kind: Kind) -> (String, GetOptions) {
    let limit = i64::from(front_of(kind));
    let options = first().with_limit(limit).with_max_create_revision(revision - 1);
    (keys.range.clone(), options)
}

/// Reads several claims.
pub(crate) fn read(keys: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Txn {
    read_each(keys, GetOptions::new())
}

/// Reads several claims without their values, as proof of holds.
pub(crate) fn prove(keys: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Txn {
    read_each(keys, GetOptions::new().with_keys_only())
}

fn read_each(keys: impl IntoIterator<Item = impl Into<Vec<u8>>>, options: GetOptions) -> Txn {
    let reads = keys.into_iter().map(|key| TxnOp::get(key, Some(options.clone())));
    Txn::new().and_then(reads.collect::<Vec<_>>())
}

/// Deletes claims, if nobody has written to any of them since they were read.
pub(crate) fn overtake<'a>(claims: impl Iterator<Item = &'a StoredClaim> + Clone) -> Txn {
    let unchanged =
        claims.clone().map(|c| Compare::mod_revision(&*c.key, CompareOp::Equal, c.modified));
    let deletions = claims.map(|claim| TxnOp::delete(&*claim.key, None));
    Txn::new().when(unchanged.collect::<Vec<_>>()).and_then(deletions.collect::<Vec<_>>())
}

/// Rewrites a place unchanged, if nobody has written to it since it was taken in this revision.
pub(crate) fn touch(key: &str, revision: i64, lease: i64) -> Txn {
    let unchanged = Compare::mod_revision(key, CompareOp::Equal, revision);
    let options = PutOptions::new().with_lease(lease).with_ignore_value();
    Txn::new().when([unchanged]).and_then([TxnOp::put(key, "", Some(options))])
}

/// Writes into the key of a hold that came from its place that it is held, on the lease `to`, if nobody has written
/// to it since it was read. Otherwise it reads the key. The create revision stays.
pub(crate) fn claim(place: &StoredClaim, to: i64) -> Txn {
    let key = &*place.key;
    let unchanged = Compare::mod_revision(key, CompareOp::Equal, place.modified);
    let value = value::claimed(&place.value, SystemTime::now());
    let put = TxnOp::put(key, value, Some(PutOptions::new().with_lease(to)));
    Txn::new().when([unchanged]).and_then([put]).or_else([TxnOp::get(key, None)])
}

/// Moves the key of a hold to another lease, if it is still the same hold on the same lease. Otherwise it
/// reads the key. The create revision stays.
pub(crate) fn reattach(hold: &StoredClaim, to: i64) -> Txn {
    let key = &*hold.key;
    let same_hold = Compare::create_revision(key, CompareOp::Equal, hold.revision);
    let same_lease = Compare::lease(key, CompareOp::Equal, hold.lease);
    let options = PutOptions::new().with_lease(to).with_ignore_value();
    let put = TxnOp::put(key, "", Some(options));
    Txn::new().when([same_hold, same_lease]).and_then([put]).or_else([TxnOp::get(key, None)])
}

/// Records a run in a separate key, if its hold is still valid with its token (C42), and reads the former record.
pub(crate) fn record(own: &str, revision: i64, run: &str, token: FencingToken, lease: i64) -> Txn {
    let same_hold = Compare::create_revision(own, CompareOp::Equal, revision);
    let options = Some(PutOptions::new().with_lease(lease).with_prev_key());
    let put = TxnOp::put(run, token.to_string(), options);
    Txn::new().when([same_hold]).and_then([put])
}

/// Withdraws a claim: while the mark exists, no later request of the claim is carried out (C19).
pub(crate) fn withdraw(own: Option<&str>, root: &Root, owner: OwnerId, lease: i64) -> Txn {
    let options = Some(PutOptions::new().with_lease(lease));
    let mark = TxnOp::put(root.withdrawn(owner), "", options);
    let delete = own.map(|own| TxnOp::delete(own, None));
    Txn::new().and_then(delete.into_iter().chain([mark]).collect::<Vec<_>>())
}

/// Ends the hold that was made in this revision, and no later hold with the same key.
pub(crate) fn release(key: &str, revision: i64) -> Txn {
    let same = Compare::create_revision(key, CompareOp::Equal, revision);
    Txn::new().when([same]).and_then([TxnOp::delete(key, None)])
}

/// Deletes a claim's key if it is still the seen one, and reads its last value.
pub(crate) fn delete(entry: &StoredClaim) -> Txn {
    let same = Compare::create_revision(&*entry.key, CompareOp::Equal, entry.revision);
    let options = Some(DeleteOptions::new().with_prev_key());
    Txn::new().when([same]).and_then([TxnOp::delete(&*entry.key, options)])
}

/// Deletes a key if it is on one of the leases. With a revision, it must also be the claim of that revision.
pub(crate) fn delete_if_on(
    key: &str,
    revision: Option<i64>,
    leases: impl Iterator<Item = i64>,
) -> Txn {
    let same = revision.map(|revision| Compare::create_revision(key, CompareOp::Equal, revision));
    leases.fold(Txn::new(), |otherwise, lease| {
        let is_on = Compare::lease(key, CompareOp::Equal, lease);
        let compares: Vec<_> = same.iter().cloned().chain([is_on]).collect();
        let txn = Txn::new().when(compares).and_then([TxnOp::delete(key, None)]);
        txn.or_else([TxnOp::txn(otherwise)])
    })
}
