//! A shard that does not answer stops its own names alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::backend::{Shard, ShardedLock};
use lock_core::{
    BackendError, DistributedLock, Health, LockClient, LockError, LockRequest, MemoryBackend,
    Outcome,
};
use lock_testkit::{Fault, Faulty, Operation};

use crate::stores::{Counted, names, sharded};

const TTL: Duration = Duration::from_secs(3);

const ALL: [Operation; 9] = [
    Operation::TryAcquire,
    Operation::ExtendAll,
    Operation::Release,
    Operation::Withdraw,
    Operation::Close,
    Operation::Inspect,
    Operation::List,
    Operation::Evict,
    Operation::Doctor,
];

/// Two shards, of which the second can be made to fail, and a name of each.
async fn two_shards() -> (ShardedLock, Faulty, [String; 2]) {
    let [one, two] = [(); 2].map(|()| Faulty::new(Arc::new(MemoryBackend::new())));
    let locks = sharded([("a", one), ("b", two.clone())]).await;
    let of = |shard| names(1, |name| locks.server_of(name) == shard).remove(0).as_str().to_owned();
    let names = [of(0), of(1)];
    (locks, two, names)
}

/// C12: a renewal that has no answer on one shard costs the holds of another nothing.
#[tokio::test(start_paused = true)]
async fn c12_a_silent_shard_costs_its_own_holds_alone() {
    let (locks, second, [here, there]) = two_shards().await;
    let client = LockClient::new(locks);
    let request = |name: &str| LockRequest::new(name).ttl(TTL);
    let kept = client.acquire(request(&here)).await.expect("a free lock");
    let lost = client.acquire(request(&there)).await.expect("a free lock");
    for operation in ALL {
        second.always(operation, Fault::Silence);
    }
    tokio::time::sleep(TTL * 4).await;
    assert!(kept.is_held(), "its own shard answers");
    assert!(!lost.is_held(), "nobody renewed it");
    kept.release().await.expect("it was held to the end");
    let _next = client.acquire(request(&here)).await.expect("a free lock");
    let refused = client.try_acquire(request(&there)).await;
    let Err(LockError::Backend { source, .. }) = refused else { panic!("{refused:?}") };
    assert!(source.is_transient(), "{source}");
    second.heal();
    let _next = client.acquire(request(&there)).await.expect("it is back");
}

#[tokio::test]
async fn an_error_says_which_shard_it_is_of() {
    let (locks, second, [here, there]) = two_shards().await;
    for operation in ALL {
        second.always(operation, Fault::Refused);
    }
    let client = LockClient::new(locks);
    client.inspect(&here).await.expect("an answer");
    let listed = client.list("", 9).await;
    let inspected = client.inspect(&there).await;
    for error in [listed.expect_err("not all"), inspected.expect_err("no answer")] {
        assert!(error.to_string().contains("shard b: "), "{error}");
    }
    let findings = client.doctor().await.expect("one answers");
    let risks: Vec<_> = findings.iter().filter(|found| found.health == Health::Risk).collect();
    assert_eq!(risks.len(), 1, "{findings:?}");
    assert!(risks[0].seen.contains("shard b: "), "{findings:?}");
}

fn unreachable() -> LockError {
    let source = BackendError::transient("test", Outcome::NotApplied, "connect", "nobody listens");
    LockError::Backend { operation: "connect", name: None, source }
}

/// A shard whose store is reached once the switch is on.
fn late(id: &str, store: impl DistributedLock + Clone) -> (Shard, Arc<AtomicBool>) {
    let switch = Arc::new(AtomicBool::new(false));
    let is_there = switch.clone();
    let shard = Shard::opened_by(id, move || {
        let opened = is_there.load(Ordering::Relaxed).then(|| store.clone());
        async move {
            opened.map_or_else(
                || Err(unreachable()),
                |it| Ok(Arc::new(it) as Arc<dyn DistributedLock>),
            )
        }
    });
    (shard, switch)
}

#[tokio::test]
async fn a_shard_that_cannot_be_reached_at_first_is_opened_later() {
    let (shard, switch) = late("b", MemoryBackend::new());
    let locks = ShardedLock::open([Shard::new("a", MemoryBackend::new()), shard]).await;
    let locks = locks.expect("one can be reached");
    let of = |shard| names(1, |name| locks.server_of(name) == shard).remove(0);
    let (here, there) = (of(0), of(1));
    let client = LockClient::new(locks);
    let _held = client.acquire(here.as_str()).await.expect("a free lock");
    let refused = client.try_acquire(there.as_str()).await;
    assert!(matches!(&refused, Err(error) if error.is_transient()), "{refused:?}");
    switch.store(true, Ordering::Relaxed);
    let guard = client.acquire(there.as_str()).await.expect("it is there");
    guard.release().await.expect("it was held");
    client.shutdown().await;
}

#[tokio::test]
async fn no_shard_at_all_is_an_error() {
    let refused = ShardedLock::open([late("a", MemoryBackend::new()).0]).await;
    let text = refused.expect_err("none is there").to_string();
    assert!(text.contains("shard a: ") && text.contains("nobody listens"), "{text}");
}

/// C22: what was told of all is looked at again when the last one comes.
#[tokio::test]
async fn c22_a_late_shard_whose_tokens_are_not_comparable_is_refused() {
    let (shard, switch) = late("b", Counted::like_etcd());
    let locks = ShardedLock::open([Shard::new("a", MemoryBackend::new()), shard]).await;
    let locks = locks.expect("one can be reached");
    let there = names(1, |name| locks.server_of(name) == 1).remove(0);
    switch.store(true, Ordering::Relaxed);
    let refused = LockClient::new(locks).try_acquire(there.as_str()).await;
    assert!(matches!(&refused, Err(error) if !error.is_transient()), "{refused:?}");
}
