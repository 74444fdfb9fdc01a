//! Which shard has which name, and who is asked for what.

use std::collections::HashMap;

use lock_core::backend::{Shard, ShardedLock};
use lock_core::{
    DistributedLock, Health, LockAdmin, LockClient, LockError, LockName, MemoryBackend, Whom,
};
use lock_testkit::Faulty;
use lock_testkit::Operation;

use crate::stores::{Counted, IDS, name, names, sharded};

const NAMES: usize = 10_000;

/// How many of the names each of so many shards has, by its number.
async fn shares(shards: &[&'static str], names: &[LockName]) -> HashMap<LockName, &'static str> {
    let stores = shards.iter().map(|&id| (id, MemoryBackend::new()));
    let locks = sharded(stores).await;
    names.iter().map(|name| (name.clone(), shards[locks.server_of(name) as usize])).collect()
}

#[tokio::test]
async fn each_shard_has_its_share_and_a_new_one_takes_no_more() {
    let names = names(NAMES, |_| true);
    let before = shares(&["a", "b", "c", "d"], &names).await;
    let after = shares(&["d", "e", "c", "b", "a"], &names).await;
    for shard in ["a", "b", "c", "d"] {
        let share = before.values().filter(|&&home| home == shard).count();
        assert!((2_200..2_800).contains(&share), "{shard} has {share} of {NAMES}");
    }
    let moved: Vec<_> = names.iter().filter(|name| before[*name] != after[*name]).collect();
    assert!((1_750..2_250).contains(&moved.len()), "{} of {NAMES} moved", moved.len());
    assert!(moved.iter().all(|name| after[*name] == "e"), "a name moved between old shards");
}

/// S3: clients of one list find the same locks, whatever its order.
#[tokio::test]
async fn the_order_of_the_list_says_nothing() {
    let stores = IDS.map(|id| (id, MemoryBackend::new()));
    let (one, other) = (sharded(stores.clone()).await, sharded(stores.into_iter().rev()).await);
    let (one, other) = (LockClient::new(one), LockClient::new(other));
    for name in names(50, |_| true) {
        let _held = one.acquire(name.as_str()).await.expect("a free lock");
        assert!(other.try_acquire(name.as_str()).await.expect("an answer").is_none(), "{name}");
    }
}

#[tokio::test]
async fn operators_see_the_locks_of_all_shards() {
    let stores = IDS.map(|id| (id, MemoryBackend::new()));
    let locks = sharded(stores.clone()).await;
    let client = LockClient::new(locks.clone());
    let names = names(30, |_| true);
    let mut guards = Vec::new();
    for name in &names {
        guards.push(client.acquire(name.as_str()).await.expect("a free lock"));
    }
    let listed = client.list("stock:", 100).await.expect("a listing");
    let mut expected = names.clone();
    expected.sort();
    assert_eq!(listed.into_iter().map(|state| state.name).collect::<Vec<_>>(), expected);
    assert_eq!(client.list("stock:", 7).await.expect("a listing").len(), 7);
    assert!(client.list("stock:", 0).await.expect("a listing").is_empty());
    for guard in &guards {
        let state = client.inspect(guard.name().as_str()).await.expect("an answer");
        assert_eq!(state.holder().and_then(|holder| holder.token), Some(guard.token()));
    }
    let evicted = client.evict(names[0].as_str()).await.expect("an answer");
    assert_eq!(evicted[0].token, Some(guards[0].token()));
    assert_eq!(client.list("", 100).await.expect("a listing").len(), 29);
}

/// What one shard is asked is about its names alone.
#[tokio::test]
async fn each_shard_is_asked_for_its_own_holds() {
    let stores = IDS.map(|id| (id, Faulty::new(std::sync::Arc::new(MemoryBackend::new()))));
    let locks = sharded(stores.clone()).await;
    let names: Vec<_> = [0, 1, 0, 2, 1]
        .into_iter()
        .enumerate()
        .flat_map(|(at, shard)| names(at + 1, |name| locks.server_of(name) == shard).pop())
        .collect();
    let client = LockClient::new(locks.clone());
    let mut renewals = Vec::new();
    for name in &names {
        let lease = client.acquire(name.as_str()).await.expect("a free lock").detach();
        let lease = lease.expect("it is held");
        renewals.push(lock_core::backend::Renewal::new(&lease, lock_core::Ttl::default()));
    }
    locks.evict(&names[2], &Whom::All).await.expect("an answer");
    let answers = locks.extend_all(&renewals).await;
    let kept: Vec<bool> = answers
        .into_iter()
        .map(|answer| {
            matches!(answer.expect("an answer"), lock_core::backend::Extension::Extended(_))
        })
        .collect();
    assert_eq!(
        kept,
        [true, true, false, true, true],
        "the answers are in the order of the questions"
    );
    for (id, store) in &stores {
        assert_eq!(store.calls(Operation::ExtendAll), 1, "shard {id}");
    }
}

#[tokio::test]
async fn a_list_that_cannot_be_used_is_refused() {
    let store = MemoryBackend::new;
    let lists = [
        (vec![], "there is none"),
        (vec![Shard::new("a", store()), Shard::new("a", store())], "two are called `a`"),
        (vec![Shard::new("a,b", store())], "`a,b` is no id"),
        (vec![Shard::new("-a", store())], "`-a` is no id"),
        (vec![Shard::new("a", store()).leaving()], "before and after"),
        (vec![Shard::new("a", store()).joining()], "before and after"),
    ];
    for (list, why) in lists {
        let refused = ShardedLock::open(list).await;
        let Err(LockError::Config { message }) = refused else { panic!("{why}: {refused:?}") };
        assert!(message.contains(why), "{message}");
    }
}

/// C22: a revision of etcd is less than a time.
#[tokio::test]
async fn c22_stores_whose_tokens_are_not_comparable_are_not_mixed() {
    let revisions = || Shard::new("a", Counted::like_etcd());
    let other = || Shard::new("b", Counted::like_etcd());
    let mixed = ShardedLock::open([revisions(), Shard::new("b", MemoryBackend::new())]).await;
    assert!(matches!(mixed, Err(LockError::Config { .. })), "{mixed:?}");
    let moving = ShardedLock::open([revisions(), other().joining()]).await;
    assert!(matches!(moving, Err(LockError::Config { .. })), "{moving:?}");
    ShardedLock::open([revisions(), other()]).await.expect("no name moves");
}

#[tokio::test]
async fn c31_the_doctor_names_clients_of_another_list() {
    let stores = IDS.map(|id| (id, MemoryBackend::new()));
    let (all, two) = (sharded(stores.clone()).await, sharded(stores.into_iter().take(2)).await);
    let strayed = names(1, |name| all.server_of(name) == 2).remove(0);
    let (all, two) = (LockClient::new(all), LockClient::new(two));
    let sound = all.doctor().await.expect("an answer");
    assert!(sound.iter().all(|finding| finding.health == Health::Good), "{sound:?}");
    assert!(sound[0].seen.starts_with("shard a: "), "{sound:?}");
    let _held = two.acquire(strayed.as_str()).await.expect("a free lock");
    let found = all.doctor().await.expect("an answer");
    let risk = found.iter().find(|finding| finding.health == Health::Risk).expect("a risk");
    assert!(risk.check == "shards" && risk.seen.contains(strayed.as_str()), "{risk}");
    assert!(all.list("", 9).await.expect("a listing").is_empty(), "it is no lock of this list");
}

/// C2: the id and the name are told apart.
#[tokio::test]
async fn the_stores_of_names_are_those_of_their_shard() {
    let stores = IDS.map(|id| (id, MemoryBackend::new()));
    let locks = sharded(stores.clone()).await;
    let client = LockClient::new(locks.clone());
    let _held = client.acquire("stock:42").await.expect("a free lock");
    let (_, home) = &stores[locks.server_of(&name("stock:42")) as usize];
    assert_eq!(home.list("", 9).await.expect("a listing").len(), 1);
}
