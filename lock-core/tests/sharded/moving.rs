//! How names move when a shard joins or leaves: clients of the former list, of both, and of the list to come.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::backend::{Shard, ShardedLock};
use lock_core::{
    DistributedLock, FencingToken, Health, LockAdmin, LockClient, LockError, LockName, LockRequest,
    MemoryBackend, Occurrence, Order, Wait, Whom,
};

use crate::stores::{Counted, IDS, names, sharded};

/// Clients of three lists over the same stores.
struct Lists {
    former: ShardedLock,
    both: ShardedLock,
    coming: ShardedLock,
}

/// The third store joins.
async fn joining() -> Lists {
    let stores = IDS.map(|id| (id, MemoryBackend::new()));
    let (two, three) =
        (sharded(stores.clone().into_iter().take(2)).await, sharded(stores.clone()).await);
    Lists { former: two, both: marked(stores, Shard::joining).await, coming: three }
}

/// The third store leaves.
async fn leaving() -> Lists {
    let stores = IDS.map(|id| (id, MemoryBackend::new()));
    let (two, three) =
        (sharded(stores.clone().into_iter().take(2)).await, sharded(stores.clone()).await);
    Lists { former: three, both: marked(stores, Shard::leaving).await, coming: two }
}

/// The stores, of which the third is marked.
async fn marked(
    stores: [(&'static str, MemoryBackend); 3],
    mark: fn(Shard) -> Shard,
) -> ShardedLock {
    let [one, two, three] = stores.map(|(id, store)| Shard::new(id, store));
    ShardedLock::open([one, two, mark(three)]).await.expect("shards")
}

impl Lists {
    /// Names of the third store, which move.
    fn moving(&self, count: usize) -> Vec<LockName> {
        names(count, |name| self.is_of_third(name))
    }

    /// Names of the others, which stay.
    fn staying(&self, count: usize) -> Vec<LockName> {
        names(count, |name| !self.is_of_third(name))
    }

    fn is_of_third(&self, name: &LockName) -> bool {
        [&self.former, &self.coming].iter().any(|locks| locks.server_of(name) == 2)
    }
}

async fn is_granted(locks: &LockClient, name: &LockName) -> bool {
    locks.try_acquire(name.as_str()).await.expect("an answer").is_some()
}

/// S3, C22: from the former shard to the new one, and nobody is granted it on the former one any more.
async fn moves_once(lists: Lists) {
    let name = lists.moving(1).remove(0);
    let [former, both, coming] =
        [lists.former.clone(), lists.both.clone(), lists.coming.clone()].map(LockClient::new);
    let first = former.acquire(name.as_str()).await.expect("a free lock");
    let seen = both.try_acquire(name.as_str()).await.expect("an answer");
    assert!(seen.is_none(), "a client of the former list holds it");
    let inspected = both.inspect(name.as_str()).await.expect("an answer");
    assert_eq!(inspected.holder().and_then(|holder| holder.token), Some(first.token()));
    assert_eq!(both.list("", 9).await.expect("a listing").len(), 1);
    let (mut last, waiting) = (first.token(), both.acquire(name.as_str()));
    let (released, second) = tokio::join!(first.release(), waiting);
    released.expect("it was held");
    let second = second.expect("its turn comes");
    assert!(second.token() > std::mem::replace(&mut last, second.token()));
    // Nobody renews what closes the lock on the former shard, which lasts longer than a hold that nobody renews.
    tokio::time::sleep(Duration::from_secs(40)).await;
    let refused = former.acquire(LockRequest::new(name.as_str()).wait(Wait::Never)).await;
    let Err(error @ LockError::NotAcquired { .. }) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("leasehold: moved to shard"), "{error}");
    assert!(!is_granted(&coming, &name).await, "a client of both lists holds it");
    second.release().await.expect("it was held");
    assert!(!is_granted(&former, &name).await, "it was opened again");
    let third = coming.acquire(name.as_str()).await.expect("a free lock");
    assert!(third.token() > last);
    assert!(!is_granted(&both, &name).await, "a client of the list to come holds it");
}

#[tokio::test(start_paused = true)]
async fn s3_a_name_moves_to_a_shard_that_joins() {
    moves_once(joining().await).await;
}

#[tokio::test(start_paused = true)]
async fn s3_a_name_moves_from_a_shard_that_leaves() {
    moves_once(leaving().await).await;
}

/// What is closed is no lock of anybody.
#[tokio::test(start_paused = true)]
async fn operators_see_no_closed_lock() {
    let lists = joining().await;
    let moved = lists.moving(3);
    let client = LockClient::new(lists.both.clone());
    for name in &moved {
        client.acquire(name.as_str()).await.expect("a free lock").release().await.expect("held");
    }
    assert!(client.list("", 9).await.expect("a listing").is_empty(), "they are closed, not held");
    let held = client.acquire(moved[0].as_str()).await.expect("a free lock");
    let evicted = client.evict(moved[0].as_str()).await.expect("an answer");
    assert_eq!(evicted.len(), 1, "what closes a lock is no holder");
    assert_eq!(evicted[0].token, Some(held.token()));
    assert!(!is_granted(&LockClient::new(lists.former), &moved[0]).await, "it was opened again");
    let findings = LockClient::new(lists.coming).doctor().await.expect("an answer");
    assert!(findings.iter().all(|finding| finding.health == Health::Good), "{findings:?}");
}

/// Closed locks take the first places of their shard's own listing.
#[tokio::test(start_paused = true)]
async fn closed_locks_hide_no_other_from_a_listing() {
    let lists = joining().await;
    let client = LockClient::new(lists.both.clone());
    let closed = lists.moving(1).remove(0);
    let is_beside = |name: &LockName| {
        let shard = lists.former.server_of(name);
        name > &closed && shard == lists.former.server_of(&closed) && !lists.is_of_third(name)
    };
    let beside = names(1, is_beside).remove(0);
    let moved = client.acquire(closed.as_str()).await.expect("a free lock");
    moved.release().await.expect("it was held");
    let _held = client.acquire(beside.as_str()).await.expect("a free lock");
    let listed = client.list("", 1).await.expect("a listing");
    assert_eq!(listed.len(), 1, "the closed lock took its place");
    assert_eq!(listed[0].name, beside);
}

/// An operator who has the list of both ends a hold of a client of the former one.
#[tokio::test(start_paused = true)]
async fn a_hold_of_a_client_of_the_former_list_can_be_evicted() {
    let lists = joining().await;
    let name = lists.moving(1).remove(0);
    let held = LockClient::new(lists.former).acquire(name.as_str()).await.expect("a free lock");
    let owner = held.token();
    let evicted = lists.both.evict(&name, &Whom::All).await.expect("an answer");
    assert_eq!(evicted[0].token, Some(owner));
    assert!(is_granted(&LockClient::new(lists.both), &name).await);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_does_not_move_is_as_ever() {
    let lists = joining().await;
    let name = lists.staying(1).remove(0);
    let (former, both) = (LockClient::new(lists.former), LockClient::new(lists.both.clone()));
    let first = both.acquire(name.as_str()).await.expect("a free lock");
    first.release().await.expect("it was held");
    let second = former.acquire(name.as_str()).await.expect("it is open");
    second.release().await.expect("it was held");
    assert_eq!(
        lists.both.capabilities().order,
        Order::Unordered,
        "who waits for one that moves is not queued"
    );
}

/// C42: what ran before the move does not run again.
#[tokio::test(start_paused = true)]
async fn c42_a_run_is_remembered_through_the_move() {
    let lists = joining().await;
    let name = lists.moving(1).remove(0);
    let former = LockClient::new(lists.former);
    let ran = former.once(name.as_str()).occurrence("monday").run(async |_| ()).await;
    assert!(ran.expect("an answer").ran().is_some(), "nobody else has it");
    let occurrence = Occurrence::new("monday").expect("an occurrence");
    assert!(lists.both.recorded(&name, &occurrence).await.expect("an answer").is_some());
}

/// C22: a store whose clock is behind, and which reserves no tokens, grants a name that moved when it no longer is.
#[tokio::test(start_paused = true)]
async fn c22_no_move_grants_a_smaller_token() {
    let (here, there) = (MemoryBackend::new(), Counted::default());
    let shards = [Shard::new("a", here.clone()), Shard::new("b", there.clone()).joining()];
    let locks = ShardedLock::open(shards).await.expect("shards");
    let plain = sharded([("a", Counted::default()), ("b", Counted::default())]).await;
    let moves = names(1, |name| plain.server_of(name) == 1).remove(0);
    let client = LockClient::new(locks);
    there.less.store(1_000_000_000, Ordering::Relaxed);
    let refused = client.try_acquire(moves.as_str()).await;
    let Err(error @ LockError::Backend { .. }) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("shard b: ") && error.is_transient(), "{error}");
    assert!(there.store.inspect(&moves).await.expect("an answer").holders.is_empty(), "it is held");
    there.less.store(0, Ordering::Relaxed);
    let granted = client.acquire(moves.as_str()).await.expect("its counter is ahead");
    granted.release().await.expect("it was held");
    // It was seen to be ahead once: a grant is compared all the same.
    there.less.store(1_000_000_000, Ordering::Relaxed);
    let refused = client.try_acquire(moves.as_str()).await;
    let Err(error @ LockError::Backend { .. }) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("shard b: ") && !error.is_transient(), "{error}");
    let refused = client.try_acquire(moves.as_str()).await;
    let Err(error @ LockError::Backend { .. }) = refused else { panic!("{refused:?}") };
    assert!(error.is_transient(), "it is looked at anew: {error}");
    assert!(there.store.inspect(&moves).await.expect("an answer").holders.is_empty(), "it is held");
}

/// What was seen of each lock: whether it is held, and its last token.
type Seen = Arc<Mutex<HashMap<LockName, (bool, Option<FencingToken>)>>>;

/// Takes the lock again and again until it is not granted any more.
async fn works(client: LockClient, name: LockName, seen: Seen, rounds: usize) -> usize {
    for round in 0..rounds {
        let request = LockRequest::new(name.as_str()).wait(Wait::AtMost(Duration::from_secs(20)));
        let Ok(guard) = client.acquire(request).await else { return round };
        {
            let mut seen = seen.lock().expect("no panic");
            let (held, last) = seen.entry(name.clone()).or_default();
            assert!(!*held, "{name} has two holders");
            assert!(Some(guard.token()) > *last, "{name}: {} after {last:?}", guard.token());
            (*held, *last) = (true, Some(guard.token()));
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
        seen.lock().expect("no panic").entry(name.clone()).or_default().0 = false;
        guard.release().await.expect("it was held to the end");
    }
    rounds
}

/// S2, S3: clients of the former list and of both, at the same time; then those of both and of the new one.
#[tokio::test(start_paused = true)]
async fn s3_clients_of_both_lists_exclude_each_other() {
    for lists in [joining().await, leaving().await] {
        let (names, seen) = ([lists.moving(4), lists.staying(2)].concat(), Seen::default());
        for (one, other) in [(&lists.former, &lists.both), (&lists.both, &lists.coming)] {
            let all = names.iter().flat_map(|name| {
                [one, other].map(|locks| {
                    works(LockClient::new(locks.clone()), name.clone(), seen.clone(), 40)
                })
            });
            let rounds = join_all(all).await;
            assert!(rounds.chunks(2).all(|pair| pair[1] == 40), "{rounds:?}: it never moved");
        }
    }
}
